/* completion.c -- `gen completion bash`: completion for gen, run.sh and train.
 *
 * In:    the tables of commands, options, fields, flags, cards ...
 * Out:   bash functions, which look up recipes when they run. */
#include "gen/commands.h"
#include "gen/tools/tools.h"
#include "runtime/pack/format_names.h"
#include "runtime/pack/pack.h"

#include <string.h>

/* Code shared by all completions: the word being typed, which bash splits at `=` and `:`. */
static const char head[] =
    "# bash completion of gen and of the programs that it writes; made by `gen completion bash`\n"
    "_gen_kind() {             # candidates for a word of kind $1, as in commands.def\n"
    "    local file\n"
    "    case $1 in\n"
    "    recipe)\n"
    "        for file in \"$_gen_root\"/recipes/*.lua; do file=${file##*/}; echo \"${file%.lua}\"; "
    "done\n"
    "        compgen -f -X '!*.lua' -- \"$2\"; compgen -d -S / -- \"$2\" ;;\n"
    "    recipes) _gen_kind recipe \"$2\"; _gen_kind fields ;;\n"
    "    file) compgen -f -- \"$2\" ;;\n"
    "    folder) compgen -d -- \"$2\" ;;\n";

static const char middle[] =
    "_gen_pick() { local IFS=$'\\n'; COMPREPLY=($(compgen -W \"$1\" -- \"$2\")); }\n"
    "_gen_space() { [[ ${#COMPREPLY[@]} = 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace "
    "2>/dev/null; return 0; }\n"
    "_gen() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} before= field= command=${COMP_WORDS[1]} at=2 n=0 i "
    "takes\n"
    "    [ \"$COMP_CWORD\" -lt 1 ] || before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    COMPREPLY=()\n"
    "    if [ \"$cur\" = = ]; then field=$before cur=\n"
    "    elif [ \"$before\" = = ]; then field=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    if [ -n \"$field\" ]; then _gen_pick \"$(_gen_values \"$field\")\" \"$cur\"; return; fi\n"
    "    if [ \"$COMP_CWORD\" = 1 ] && [[ $cur != -* ]]; then\n"
    "        _gen_pick \"$_gen_commands\"$'\\n'\"$(_gen_kind recipe \"$cur\")\" \"$cur\"; "
    "_gen_space; return\n"
    "    fi\n"
    "    case $'\\n'$_gen_commands$'\\n' in *$'\\n'\"$command\"$'\\n'*) ;; *) command= at=1 ;; "
    "esac\n"
    "    takes=$(_gen_value_of \"$command $before\")\n"
    "    if [ -n \"$takes\" ]; then _gen_pick \"$(_gen_kind \"$takes\" \"$cur\")\" \"$cur\"; "
    "_gen_space; return; fi\n"
    "    if [[ $cur == -* ]]; then _gen_pick \"$(_gen_options \"$command\")\" \"$cur\"; return; "
    "fi\n"
    "    for ((i = at; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        -*) [ -z \"$(_gen_value_of \"$command ${COMP_WORDS[i]}\")\" ] || ((i++)) ;;\n"
    "        =) ((i++, n--)) ;;\n"
    "        *) ((n++)) ;;\n"
    "        esac\n"
    "    done\n"
    "    read -ra takes <<<\"$(_gen_takes \"$command\")\"\n"
    "    [ ${#takes[@]} -gt 0 ] || return 0\n"
    "    [ $n -lt ${#takes[@]} ] || n=$((${#takes[@]} - 1))\n"
    "    _gen_pick \"$(_gen_kind \"${takes[n]}\" \"$cur\")\" \"$cur\"; _gen_space\n"
    "}\n"
    "_diecast_train() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} flag= kind\n"
    "    COMPREPLY=()\n"
    "    [ \"$COMP_CWORD\" -lt 1 ] || flag=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    if [ \"$cur\" = = ]; then cur=; elif [ \"$flag\" = = ]; then "
    "flag=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
    "    kind=$(_diecast_value \"$flag\")\n"
    "    if [[ -n $kind && $cur != --* ]]; then _gen_pick \"$(_gen_kind \"$kind\" \"$cur\")\" "
    "\"$cur\"; return; fi\n"
    "    _gen_pick \"$_diecast_flags\" \"$cur\"\n"
    "}\n"
    "complete -F _gen gen\n"
    "complete -F _diecast_train run.sh train\n";

/* Converts words between bars to lines. */
static void print_words(const char *words)
{
    for (const char *p = words; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        if (n)
            printf("%.*s\n", (int)n, p);
        p += n;
    }
}

static void here(const char *name, void (*print)(void))
{
    printf("    %s)\n        cat <<'END'\n", name);
    print();
    printf("END\n        ;;\n");
}

static void print_sections(void)
{
    const char *name[64];
    for (int i = 0, n = list_sections(name, 64); i < n; i++)
        puts(name[i]);
}

static void print_cards(void)
{
    for (int i = 0; i < card_count(); i++)
        puts(card_row(i)->name);
}

static void print_targets(void) { print_words(field_choices(F_target)); }
static void print_formats(void) { print_words(FORMAT_NAMES); }

static void print_chats(void)
{
    int n;
    for (int i = 0; chat_row(i, &n); i++)
        puts(chat_row(i, &n)->name);
}

static void print_paths(const char *suffix)
{
    for (int i = 0; i < NFIELDS; i++)
        printf("%s%s\n", field_row[i].path, suffix);
}

static void print_fields(void)
{
    print_paths("=");
    for (int i = 0; i < nrun_flags; i++)
        if (run_flag[i].recipe)
            printf("run.%s=\n", run_flag[i].name);
}

static void print_filters(void)
{
    print_paths("=");
    printf("adapter=\nfits=\n");
}

static void print_field(void)
{
    print_paths("");
    for (int i = 0; i < nrun_flags; i++)
        printf("%s\n", run_flag[i].name);
}

static void print_commands(void)
{
    for (int i = 0; i < ncommands; i++)
        if (*command_row[i].word)
            puts(command_row[i].word);
}

static char *dashed(const char *name)
{
    char *s = text_print("--%s", name);
    for (char *p = s; *p; p++)
        *p = *p == '_' ? '-' : *p;
    return s;
}

/* A kind of _gen_kind, or words between bars, for the value of a flag; "any" for what cannot be
 * known. */
static const char *flag_kind(int i)
{
    const RunFlag *f = &run_flag[i];
    return f->type == FT_BOOL                                       ? "true|false"
           : run_flag_words(i)                                      ? f->value + (*f->value == '|')
           : strstr(f->value, "FILE") || strstr(f->value, "PATH")   ? "file"
           : strstr(f->value, "DIR")                                ? "folder"
                                                                    : "any";
}

static void print_script(void)
{
    fputs(head, stdout);
    here("fields", print_fields);
    here("filters", print_filters);
    here("field", print_field);
    here("@sections", print_sections);
    here("@cards", print_cards);
    here("@targets", print_targets);
    here("@formats", print_formats);
    here("@chats", print_chats);
    printf("    any) ;;\n    *) tr '|' '\\n' <<<\"$1\" ;;\n    "
           "esac\n}\n_gen_root=%s\n_gen_commands='",
           text_shell(gen_root()));
    print_commands();
    printf("'\n_gen_takes() {\n    case $1 in\n");
    for (int i = 0; i < ncommands; i++)
        printf("    '%s') echo '%s' ;;\n", command_row[i].word, command_row[i].takes);
    printf("    esac\n}\n_gen_options() {\n    case $1 in\n");
    for (int i = 0; i < ncommands; i++) {
        const char *word[64];
        printf("    '%s') printf '%%s\\n' --help", command_row[i].word);
        for (int k = 0, n = command_option_words(command_row[i].word, word, 64); k < n; k++)
            printf(" %s", word[k]);
        printf(" ;;\n");
    }
    printf("    esac\n}\n_gen_value_of() {          # \"COMMAND OPTION\"\n    case $1 in\n");
    for (int i = 0; i < ncommands; i++) {
        const char *word[64];
        for (int k = 0, n = command_option_words(command_row[i].word, word, 64); k < n; k++) {
            const OptionRow *o = command_option(command_row[i].word, word[k]);
            if (*o->value)
                printf("    '%s %s') echo '%s' ;;\n", command_row[i].word, word[k],
                       *o->takes ? o->takes : "any");
        }
    }
    printf("    esac\n}\n_gen_values() {            # of FIELD=\n    case $1 in\n");
    for (int i = 0; i < NFIELDS; i++) {
        const FieldType type = field_row[i].type;
        const char *words = type == FT_CHOICE ? field_choices(i)
                          : type == FT_BOOL ? "true|false" : NULL;
        if (words)
            printf("    %s) tr '|' '\\n' <<<'%s' ;;\n", field_row[i].path, words);
    }
    printf("    adapter) printf 'lora\\nnone\\n' ;;\n");
    for (int i = 0; i < nrun_flags; i++)
        if (run_flag[i].recipe && strchr(flag_kind(i), '|'))
            printf("    run.%s) tr '|' '\\n' <<<'%s' ;;\n", run_flag[i].name, flag_kind(i));
    printf("    esac\n}\n_diecast_flags='");
    for (int i = 0; i < nrun_flags; i++)
        puts(dashed(run_flag[i].name));
    printf("'\n_diecast_value() {\n    case $1 in\n");
    for (int i = 0; i < nrun_flags; i++)
        printf("    %s) echo '%s' ;;\n", dashed(run_flag[i].name), flag_kind(i));
    printf("    esac\n}\n");
    fputs(middle, stdout);
}

int completion_main(int argc, char **argv)
{
    if (argc != 2 || strcmp(argv[1], "bash"))
        err((Loc){0}, "completion: the only supported shell is bash: gen completion bash%s",
            argc > 1 ? text_print(", got %s", argv[1]) : "");
    print_script();
    return 0;
}
