/* sim_vector.h -- CUDA's short vectors with CUDA's alignment, and make_TYPE of each. */
#ifndef SIM_VECTOR_H
#define SIM_VECTOR_H

#define SIM_VECTOR2(T, name, align)                                                             \
    struct __attribute__((aligned(align))) name {                                               \
        T x, y;                                                                                 \
    };                                                                                          \
    static inline name make_##name(T x, T y) { return name{x, y}; }
#define SIM_VECTOR3(T, name, align)                                                             \
    struct __attribute__((aligned(align))) name {                                               \
        T x, y, z;                                                                              \
    };                                                                                          \
    static inline name make_##name(T x, T y, T z) { return name{x, y, z}; }
#define SIM_VECTOR4(T, name, align)                                                             \
    struct __attribute__((aligned(align))) name {                                               \
        T x, y, z, w;                                                                           \
    };                                                                                          \
    static inline name make_##name(T x, T y, T z, T w) { return name{x, y, z, w}; }
#define SIM_VECTORS(T, name, a2, a3, a4)                                                        \
    SIM_VECTOR2(T, name##2, a2)                                                                 \
    SIM_VECTOR3(T, name##3, a3)                                                                 \
    SIM_VECTOR4(T, name##4, a4)

SIM_VECTORS(signed char, char, 2, 1, 4)
SIM_VECTORS(unsigned char, uchar, 2, 1, 4)
SIM_VECTORS(short, short, 4, 2, 8)
SIM_VECTORS(unsigned short, ushort, 4, 2, 8)
SIM_VECTORS(int, int, 8, 4, 16)
SIM_VECTORS(unsigned, uint, 8, 4, 16)
SIM_VECTORS(long long, longlong, 16, 8, 16)
SIM_VECTORS(unsigned long long, ulonglong, 16, 8, 16)
SIM_VECTORS(float, float, 8, 4, 16)
SIM_VECTORS(double, double, 16, 8, 16)

#undef SIM_VECTORS
#undef SIM_VECTOR4
#undef SIM_VECTOR3
#undef SIM_VECTOR2

#endif
