"""The compiler: from restricted Python to a typed IR to one C++ text for every target.

Its packages import ``language`` and each other in the order ir, passes, frontend or codegen.
"""
