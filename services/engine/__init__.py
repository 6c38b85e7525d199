"""The embedded policy engine: the part of vLLM's HTTP protocol that we use, on torch, for laptops and tests."""
