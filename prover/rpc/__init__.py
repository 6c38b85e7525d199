"""The wire between services: channels, servers, and conversion between nouns and protobuf. `v1` is generated."""
