"""Compiled loops over bytes and numbers. Importing one imports numba, so whoever calls one imports it where it is called.

Compiled code is kept beside its file and made anew when that file changes, and only then: no file here calls compiled
functions of another one. `_nrt=False` leaves out the counting of references to arrays, which took most of the time
(3.4x on JSON lines); such a function allocates nothing and gets its room from its caller.
"""
