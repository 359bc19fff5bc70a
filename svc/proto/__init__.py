"""The wire's schema: ``*.proto`` files and the modules generated from them (``make proto``)."""
