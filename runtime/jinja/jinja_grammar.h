/* jinja_grammar.h -- parts of the parser: lexemes, names and nodes (jinja_nodes.c), expressions
 * (jinja_expressions.c), statements and the template (jinja_parse.c).
 *
 * Nodes and names belong to the template's arena. Each error ends in template_fail(). What is not
 * supported (statements, filters, tests) is an error here, not where it runs. */
#ifndef DIECAST_JINJA_GRAMMAR_H
#define DIECAST_JINJA_GRAMMAR_H

#include "runtime/jinja/jinja_parts.h"

/* ---- lexemes --------------------------------------------------------------------------------- */

const Lexeme *lex_peek(const JinjaTemplate *t);  /* the next one, which stays */
const Lexeme *lex_take(JinjaTemplate *t);        /* at the end: LEX_EOF again */
/* True if the next lexeme is this name, or this operator. */
bool lex_is_name(const JinjaTemplate *t, const char *name);
bool lex_is_op(const JinjaTemplate *t, const char *op);
/* Take the next lexeme if it is this one; false: it is not. */
bool lex_take_name(JinjaTemplate *t, const char *word);
bool lex_take_op(JinjaTemplate *t, const char *word);
/* Take the next lexeme, which must be an operator, the end of a block, or a name, which is returned
 * interned; what: its name in the message of another one. */
void lex_want_op(JinjaTemplate *t, const char *word);
void lex_want_end(JinjaTemplate *t);
const char *lex_want_name(JinjaTemplate *t, const char *what);
/* Fails with "expected WANT, got" and the next lexeme. */
_Noreturn void lex_unexpected(JinjaTemplate *t, const char *want);

/* ---- names and nodes ------------------------------------------------------------------------- */

/* Equal names have equal pointers. */
const char *name_intern(JinjaTemplate *t, const char *s, size_t n);
Node *node_new(JinjaTemplate *t, NodeKind kind);         /* with the line of the next lexeme */
/* With operands, either NULL; its line is that of a, if there is one. */
Node *node_with(JinjaTemplate *t, NodeKind kind, Node *a, Node *b);
/* Adds a level to t->depth, which the caller subtracts again; fails beyond JINJA_DEPTH. */
void parse_deeper(JinjaTemplate *t);

/* ---- expressions ----------------------------------------------------------------------------- */

Node *parse_expression(JinjaTemplate *t);
/* One expression, or several separated by commas: a tuple. conditions: with "x if y else z".
 * end_name: a name that ends the tuple after a comma, or NULL. */
Node *parse_tuple(JinjaTemplate *t, bool conditions, const char *end_name);
/* A filter and its arguments, after "|"; of: its operand, or NULL. */
Node *parse_filter(JinjaTemplate *t, Node *of);
/* True for the constants true, false and none, also capitalised; sets *to. */
bool parse_constant(const char *name, Value *to);

#endif
