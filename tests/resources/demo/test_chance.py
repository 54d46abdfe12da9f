import numpy as np

from resources.demo.chance import deviates, uniforms

MANY = np.arange(200_000)


def test_the_same_question_draws_the_same_number_wherever_it_stands() -> None:
    drawn = uniforms("clicks", MANY, seed=3)
    assert np.array_equal(uniforms("clicks", MANY[::-1][:10], seed=3), drawn[::-1][:10])


def test_another_seed_purpose_or_word_draws_unrelated_numbers() -> None:
    drawn = uniforms("clicks", MANY, seed=3)
    for other in (
        uniforms("clicks", MANY, seed=4),
        uniforms("hours", MANY, seed=3),
        uniforms("clicks", MANY, MANY, seed=3),
        uniforms("clicks", MANY + 1, seed=3),
    ):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.01


def test_the_order_of_words_matters() -> None:
    ones, twos = np.array([1]), np.array([2])
    assert uniforms("pair", ones, twos, seed=0) != uniforms("pair", twos, ones, seed=0)


def test_uniforms_fill_the_unit_interval_evenly() -> None:
    drawn = uniforms("clicks", MANY, seed=3)
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.bincount((drawn * 100).astype(int), minlength=100)
    assert counts.min() > 1_800 and counts.max() < 2_200


def test_deviates_are_standard_and_bounded() -> None:
    drawn = deviates("effects", MANY, seed=3)
    assert abs(drawn.mean()) < 0.01 and abs(drawn.std() - 1) < 0.01 and abs(drawn).max() < 3.5
    assert 0.66 < (abs(drawn) < 1).mean() < 0.69


def test_the_draws_are_golden() -> None:
    words = np.array([0, 1, 2**40])
    assert uniforms("golden", words, seed=0).tolist() == [0.5985612938125676, 0.12076319687073167, 0.5754759954381675]
    assert deviates("golden", words, seed=0).tolist() == [0.1753564012078455, -1.4440540174220755, -0.3355954156047057]
