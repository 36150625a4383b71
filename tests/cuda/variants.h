/* variants.h -- kernels under test with every VARIANT of kernels.def that gen tune may choose.
 *
 * Use: every_ce_threads([&](auto threads) { ce_rows<decltype(threads)::value>(...); }); the default
 *      comes first and is DEFAULT_ce_threads. */
#ifndef DIECAST_TESTS_CUDA_VARIANTS_H
#define DIECAST_TESTS_CUDA_VARIANTS_H

#include <type_traits>

template <int... VALUES, typename F>
static inline void every_value(const F &f)
{
    (f(std::integral_constant<int, VALUES>()), ...);
}

template <int FIRST, int...>
constexpr int first_value = FIRST;

#define KERNEL(...)
#define VARIANT(family, fits, rounds, doc, ...)              \
    template <typename F>                                    \
    static inline void every_##family(const F &f)            \
    {                                                        \
        every_value<__VA_ARGS__>(f);                         \
    }                                                        \
    constexpr int DEFAULT_##family = first_value<__VA_ARGS__>;
#include "../../kernels/kernels.def"
#undef KERNEL

#endif
