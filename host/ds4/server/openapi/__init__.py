"""The server's own description of what it takes and gives: an OpenAPI 3.1 document, made of plain data once."""
