/* cairo.h -- libcairo, loaded on demand: the functions needed to draw figures.
 *
 * Keeps: a program starts and trains without the library. */
#ifndef DIECAST_CAIRO_H
#define DIECAST_CAIRO_H

typedef struct CairoSurface CairoSurface;        /* cairo_surface_t */
typedef struct CairoPen CairoPen;                /* cairo_t */

/* cairo_text_extents_t */
typedef struct {
    double x_bearing, y_bearing, width, height, x_advance, y_advance;
} CairoExtents;

/* Values from cairo's headers. */
enum {
    CAIRO_FORMAT_RGB24 = 1, CAIRO_SLANT_NORMAL = 0, CAIRO_WEIGHT_NORMAL = 0, CAIRO_WEIGHT_BOLD = 1,
    CAIRO_CAP_ROUND = 1, CAIRO_JOIN_ROUND = 1
};

/* One row per function: name without cairo_, return type, parameters. */
#define CAIRO_FUNCTIONS(X)                                                                         \
    X(image_surface_create, CairoSurface *, (int format, int width, int height))                   \
    X(surface_destroy, void, (CairoSurface *))                                                     \
    X(surface_flush, void, (CairoSurface *))                                                       \
    X(image_surface_get_data, unsigned char *, (CairoSurface *))                                   \
    X(image_surface_get_stride, int, (CairoSurface *))                                             \
    X(create, CairoPen *, (CairoSurface *))                                                        \
    X(destroy, void, (CairoPen *))                                                                 \
    X(status, int, (CairoPen *))                                                                   \
    X(status_to_string, const char *, (int status))                                                \
    X(set_source_rgb, void, (CairoPen *, double r, double g, double b))                            \
    X(set_line_width, void, (CairoPen *, double))                                                  \
    X(set_line_cap, void, (CairoPen *, int))                                                       \
    X(set_line_join, void, (CairoPen *, int))                                                      \
    X(set_dash, void, (CairoPen *, const double *length, int n, double from))                      \
    X(paint, void, (CairoPen *))                                                                   \
    X(move_to, void, (CairoPen *, double x, double y))                                             \
    X(line_to, void, (CairoPen *, double x, double y))                                             \
    X(arc, void, (CairoPen *, double x, double y, double r, double from, double to))               \
    X(close_path, void, (CairoPen *))                                                              \
    X(new_path, void, (CairoPen *))                                                                \
    X(fill, void, (CairoPen *))                                                                    \
    X(stroke, void, (CairoPen *))                                                                  \
    X(select_font_face, void, (CairoPen *, const char *family, int slant, int weight))             \
    X(set_font_size, void, (CairoPen *, double))                                                   \
    X(text_extents, void, (CairoPen *, const char *text, CairoExtents *))                          \
    X(show_text, void, (CairoPen *, const char *text))

typedef struct {
#define CAIRO_FUNCTION(name, returns, takes) returns (*name) takes;
    CAIRO_FUNCTIONS(CAIRO_FUNCTION)
#undef CAIRO_FUNCTION
} Cairo;

/* Returns the library, opened once. NULL if it is missing, with a malloc'ed *error that says what
 * to install. */
const Cairo *cairo_open(char **error);

#endif
