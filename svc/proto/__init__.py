"""The wire schema: ``*.proto`` files and the modules that ``make proto`` generates from them."""
