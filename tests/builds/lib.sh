# shellcheck shell=bash
# Shared by the scripts of this folder.

# nvcc, or nothing: the first of NVCC, PATH and the usual folder.
nvcc_path() {
    command -v "${NVCC:-nvcc}" || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }
}
