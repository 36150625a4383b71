/* names.cpp -- what a failure says: kernels and lines of code by the program's own symbols.
 *
 * In:  /proc/self/exe: its .symtab and, by addr2line (binutils), its line numbers. */
#include "internal.h"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *sim_op_name;

/* "void scale<64>(float*)" -> "scale<64>" */
static std::string short_name(const char *symbol)
{
    int status;
    char *full = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::string name = status == 0 ? full : symbol;
    free(full);
    int depth = 0;
    size_t begin = 0, end = name.size();
    for (size_t i = 0; i < name.size(); i++) {
        depth += name[i] == '<';
        depth -= name[i] == '>';
        if (depth == 0 && name[i] == ' ')
            begin = i + 1;
        if (depth == 0 && name[i] == '(') {
            end = i;
            break;
        }
    }
    return name.substr(begin, end - begin);
}

static uintptr_t load_address()
{
    uintptr_t address = 0;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *to) {
            *(uintptr_t *)to = info->dlpi_addr;
            return 1;            /* the first object is the program */
        },
        &address);
    return address;
}

static std::map<uintptr_t, std::string> read_symbols()
{
    std::map<uintptr_t, std::string> symbols;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return symbols;
    void *p = mmap(nullptr, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return symbols;
    const char *file = (const char *)p;
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)file;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *s = (const Elf64_Sym *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        for (size_t n = sections[i].sh_size / sizeof *s; n > 0; n--, s++)
            if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_value != 0)
                symbols.emplace(s->st_value, names + s->st_name);
    }
    munmap(p, (size_t)st.st_size);
    return symbols;
}

extern "C" const char *sim_kernel_name(const void *kernel)
{
    static std::map<const void *, std::string> known;
    auto found = known.find(kernel);
    if (found != known.end())
        return found->second.c_str();
    static const std::map<uintptr_t, std::string> symbols = read_symbols();
    auto symbol = symbols.find((uintptr_t)kernel - load_address());
    std::string name = symbol == symbols.end() ? "kernel" : short_name(symbol->second.c_str());
    return known.emplace(kernel, name).first->second.c_str();
}

/* Is the line one of the simulator's own headers, where device code only passes through? */
static bool own_header(const char *file)
{
    static const char *const own[] = {"cuda_runtime.h", "cuda_bf16.h", "cuda_fp16.h", "sim_",
                                      "ptx.h"};
    for (const char *name : own)
        if (strncmp(file, name, strlen(name)) == 0)
            return true;
    return false;
}

const char *names_line(const void *pc)
{
    static char text[256];
    char exe[4096], command[4300], line[4096];
    ssize_t n = pc ? readlink("/proc/self/exe", exe, sizeof exe - 1) : -1;
    if (n < 0)
        return "";
    exe[n] = 0;
    snprintf(command, sizeof command, "addr2line -i -e '%s' %#zx 2>/dev/null", exe,
             (uintptr_t)pc - load_address() - 1);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return "";
    size_t used = 0;
    int frames = 0;
    while (fgets(line, sizeof line, pipe)) {
        line[strcspn(line, " \n")] = 0;
        const char *base = strrchr(line, '/');
        base = base ? base + 1 : line;
        if (base[0] == '?' || base[0] == 0 || own_header(base) || ++frames > 3)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.60s",
                                 frames == 1 ? " [" : " in ", base);
    }
    pclose(pipe);
    if (used == 0)
        return "";
    snprintf(text + used, sizeof text - used, "]");
    return text;
}

void sim_fail(const char *format, ...)
{
    char what[1024], where[256] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const Place place = sim_place;
    if (place.kernel && place.thread >= 0) {
        Index t = index_of(place.thread, place.block);
        snprintf(where, sizeof where, "%.150s block (%u,%u,%u) thread (%u,%u,%u): ", place.kernel,
                 place.at.x, place.at.y, place.at.z, t.x, t.y, t.z);
    } else if (sim_op_name) {
        snprintf(where, sizeof where, "%.150s: ", sim_op_name);
    }
    sim_place.inside = false;
    fflush(stdout);
    fprintf(stderr, "simulator: %s%s%s\n", where, what, place.inside ? names_line(sim_pc) : "");
    _exit(SIM_EXIT);
}
