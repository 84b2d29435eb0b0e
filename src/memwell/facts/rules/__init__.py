"""The offline extractor: facts from turns by rules, without a language model."""
