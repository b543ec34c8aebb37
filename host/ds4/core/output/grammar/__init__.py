"""What an answer may be where tools are forced, forbidden or strict: grammars (in llguidance's dialect of Lark), one
module for each way of writing calls.

A grammar describes all that the model writes, from its first token to the end of its turn, as text: special tokens that
the parser reads (`Dialect.visible`) count as their text. Whatever it lets through the dialect's parser reads as
well-formed calls of the tools given.
"""
