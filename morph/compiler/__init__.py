"""The compiler: restricted Python -> typed IR -> one C++ text for every target."""
