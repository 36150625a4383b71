/* libraries_cpu.c -- versions of oneDNN, OpenMP and MPI in CPU programs. */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

#include "runtime/libraries.h"
#include "runtime/libraries_text.h"

#if DIECAST_RANKS > 1
#include <mpi.h>
#endif

int libraries_of_model(LibraryVersion *list)
{
    static char loaded[64];
    const dnnl_version_t *v = dnnl_version();
    int n = libraries_of_text(list);
    snprintf(loaded, sizeof loaded, "%d.%d.%d", v->major, v->minor, v->patch);
    list[n++] = (LibraryVersion){
        "oneDNN", VERSION_3(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH), loaded,
        true};
#if DIECAST_RANKS > 1
    /* version of the standard; the library describes itself in words */
    static char said[MPI_MAX_LIBRARY_VERSION_STRING], built[32];
    int length = 0;
    MPI_Get_library_version(said, &length);
    said[strcspn(said, ",\n")] = 0;              /* "Open MPI v4.1.4, package: ..." */
#ifdef OMPI_MAJOR_VERSION
    snprintf(built, sizeof built, "Open MPI v%d.%d.%d", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
             OMPI_RELEASE_VERSION);
#else
    snprintf(built, sizeof built, "MPI %d.%d", MPI_VERSION, MPI_SUBVERSION);
#endif
    list[n++] = (LibraryVersion){"MPI", built, said, false};
#endif
    return n;
}
