"""From a kernel and its arguments to launches."""
