"""Search for dense subgraphs of bounded size."""
