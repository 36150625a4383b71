/* emit_model.c -- the map from rows of parameters to tensors of Hugging Face files.
 *
 * In:    parameters of the graph.   Out: text.
 * Keeps: names of transformers and PEFT. */
#include "gen/emit/emit.h"
#include "runtime/nf4.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/dynamic_map.h"

/* ---- tensor rows ----------------------------------------------------------------------------- */

/* State PREFIX.PARAM of a parameter; NULL: it has none. */
static const Value *state_of(const Graph *g, const char *prefix, const Value *v)
{
    const Value *state = ir_value(g, text_print("%s.%s", prefix, v->name));
    return state && state->kind == VK_STATE ? state : NULL;
}

static const char *element_type(Dtype dtype)
{
    static const char *const type[NDTYPES] = {
        [DT_F32] = "EL_F32", [DT_BF16] = "EL_BF16", [DT_F16] = "EL_F16", [DT_U8] = "EL_U8",
        [DT_I16] = "EL_REMAINDER"};
    if (!type[dtype])
        bug("no array of a model is %s", dtype_name[dtype]);
    return type[dtype];
}

/* The magnitudes of an array of 8 bit: name, and blocks from one tensor to the next. */
static char *absmax_text(const Graph *g, const Value *v)
{
    const Value *absmax = state_of(g, "absmax", v);
    const bool divided = v->place == PL_PARTS;
    return text_print("%s, %s, %" PRId64, divided ? "" : ", 0", c_name(absmax->name),
                      divided ? v->part * g->ranks / DYNAMIC_BLOCK : absmax->dim[1].n);
}

/* .exp_avg = {m_wte, EL_F32}, of a rank's parts {m_wte, EL_F32, 32768}, in 8 bit
 * {m_wte, EL_U8, 0, absmax_m_wte, 128} */
static void print_array(Str *s, const Graph *g, const char *field, const Value *v)
{
    const bool nf4 = value_is_nf4(v);
    str_print(s, ".%s = {%s, %s%s%s}", field, c_name(v->name),
              nf4 ? "EL_NF4" : element_type(v->dtype),
              v->place == PL_PARTS ? text_print(", %" PRId64, v->part * (nf4 ? 2 : 1)) : "",
              v->dtype == DT_U8 && !nf4 ? absmax_text(g, v) : "");
}

/* Type of the matrices into which an NF4 parameter is dequantised. */
static Dtype dequantised_type(const Graph *g, const Value *param)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Op *op = &g->programs[i]->ops[k];
            if (op->kind == OP_dequant && value_is_weight(op->in[0].v, param))
                return op->out[0].v->dtype;
        }
    bug("%s is never dequantised", param->name);
}

/* States of the blocks of an NF4 parameter's tensor, each from its first element on. */
static void print_nf4(Str *s, const Graph *g, const Value *v, const Piece *piece)
{
    int64_t blocks = 0, groups = 0;
    for (const Piece *p = v->piece; p < piece; p++) {
        blocks += NF4_BLOCKS(p->rows * p->cols);
        groups += NF4_GROUPS(p->rows * p->cols);
    }
    const struct { const char *name; int64_t first; } side[] = {
        {"absmax", blocks}, {"nested", groups}, {"offset", piece - v->piece}};
    str_print(s, ",\n     .nf4 = {.access = &nf4_access");
    for (int i = 0; i < 3; i++) {
        const Value *of = state_of(g, side[i].name, v);
        str_print(s, ",\n             .%s = {%s, %" PRId64 ", %" PRId64 "}", side[i].name,
                  c_name(of->name), side[i].first,
                  v->count ? of->stride / dtype_bytes[of->dtype] : 0);
    }
    str_print(s, ",\n             .computes = %s}", element_type(dequantised_type(g, v)));
}

/* Elements from one tensor of a value to the next where it is not divided; 0: it has one tensor. */
static int64_t tensor_stride(const Graph *g, const Value *v)
{
    return v->place == PL_PARTS  ? v->part * g->ranks
           : v->count || v->part ? v->stride / dtype_bytes[v->dtype] : 0;
}

/* A module in lora.modules_to_save is in the adapter file, under the name that PEFT gives it. */
static const char *file_name(const Value *v, const Piece *piece)
{
    bool peft = !strncmp(piece->name, "base_model.", 11);
    return v->adapter && !peft ? text_print("base_model.model.%s", piece->name) : piece->name;
}

static void tensor_row(Str *s, const Graph *g, const Value *v, const Piece *piece)
{
    static const char *const init[][2] = {{"zeros", "INIT_ZEROS"},
                                          {"ones", "INIT_ONES"},
                                          {"normal", "INIT_NORMAL"},
                                          {"uniform", "INIT_UNIFORM"}};
    static const char *const state[][2] = {{"master", "master"},
                                           {"master", "remainder"},
                                           {"exp_avg", "m"},
                                           {"exp_avg_sq", "v"},
                                           {"grad", "grad"},
                                           {"start", "start"}};
    const char *kind = NULL;
    for (int i = 0; i < 4; i++)
        if (!strcmp(init[i][0], v->init))
            kind = init[i][1];
    int64_t cols = v->rank == 2 ? piece_columns(v, piece) : 1,
            codes = value_is_nf4(v) ? 2 : 1, pitch = v->rank == 2 ? v->dim[1].n * codes : 1;
    str_print(s, "    {.name = \"%s\",\n     .layers = %" PRId64 ", .rank = %d, .shape = {%" PRId64,
              file_name(v, piece), v->count, v->rank, piece->rows);
    if (v->rank == 2)
        str_print(s, ", %" PRId64, cols);
    const char *flags =
        text_print("%s%s%s%s%s%s%s%s", piece->transposed ? " .transposed = true," : "",
                   v->adapter ? " .adapter = true," : "",
                   v->optional_in_checkpoint ? " .optional_in_checkpoint = true," : "",
                   v->extra_vocab_row ? " .extra_vocab_row = true," : "",
                   v->not_in_model ? " .not_in_model = true," : "",
                   v->trained ? " .trained = true," : "", v->decay ? " .decay = true," : "",
                   v->set ? text_print(" .set = \"%s\",", v->set) : "");
    str_print(s, "},\n%s%s%s", *flags ? "    " : "", flags, *flags ? "\n" : "");
    const bool random = !strcmp(v->init, "normal") || !strcmp(v->init, "uniform");
    str_print(s, "     .init = %s%s, .first = %" PRId64 ", .stride = %" PRId64 "%s,\n     ", kind,
              random ? text_print(", .init_arg = %s", float_text(v->std)) : "",
              piece->row0 * pitch, tensor_stride(g, v) * codes,
              pitch > cols ? text_print(", .pitch = %" PRId64, pitch) : "");
    print_array(s, g, "weight", v);
    if (value_is_nf4(v))
        print_nf4(s, g, v, piece);
    for (size_t i = 0; v->trained && i < sizeof state / sizeof *state; i++) {
        const Value *of = state_of(g, state[i][1], v);
        if (!of)
            continue;
        str_print(s, ",\n     ");
        print_array(s, g, state[i][0], of);
    }
    str_print(s, "},\n");
}

char *emit_tensors(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nvalues; i++)
        for (int j = 0; g->values[i]->kind == VK_PARAM && j < g->values[i]->npieces; j++)
            tensor_row(&s, g, g->values[i], &g->values[i]->piece[j]);
    Str lines = {0};
    print_wrapped(&lines, s.text);
    return lines.text;
}

/* Returns the scale of the sum of the adapters with these A's. */
static char *adapter_scale(const Graph *g, const Value *a)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            for (int k = 0; k < op->nin; k++)
                if (value_is_weight(op->in[k].v, a) && op_attr(op, "scale"))
                    return attribute_text(g, op, "scale");
        }
    bug("no op reads %s", a->name);
}

/* Each lora_A piece with its lora_B and the weight of the same module. */
char *emit_merges(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nvalues; i++)
        for (int j = 0; g->values[i]->kind == VK_PARAM && j < g->values[i]->npieces; j++) {
            const Value *v = g->values[i];
            const char *name = v->piece[j].name, *suffix = strstr(name, ".lora_A.weight");
            if (!suffix)
                continue;
            size_t skip = strlen("base_model.model.");
            const char *module = text_print("%.*s", (int)(suffix - name - (long)skip), name + skip);
            str_print(&s,
                      "    {\"%s.weight\",\n     \"%s\",\n     "
                      "\"base_model.model.%s.lora_B.weight\", %" PRId64 ", %s},\n",
                      module, name, module, v->count, adapter_scale(g, v));
        }
    return s.n ? s.text : "";
}
