"""The scheduler: a pure decision core. Requests, hang-ups, step outcomes and times go in; steps and finishes come out.

Nothing here does I/O, reads a clock, or knows text: the engine loop drives it and tests drive it with made-up tapes.
"""
