# shellcheck shell=bash
# pages.sh -- the commands that pages show, as lines of a shell; for scripts that stand in the project's root.
#
# A line of a block of code, indented or fenced, is a command when it begins with `$ `, or with the name of a program
# that pages use; a line that ends with \ goes on. So is a span of code in a paragraph that begins with gen, make,
# out/... or recipes/....sh.

# pages: those that people write, a line each
pages() { printf '%s\n' README.md {gen,kernels,recipes,tests}/*.md; }

# commands PAGE [all|walk]: LINE<tab>COMMAND; walk: of the blocks after a line <!-- walk -->, each line of them
commands() {
    awk -v walk="${2:-all}" '
        function said(text, at) {
            sub(/^\$ /, "", text)
            if (walk == "walk" || text ~ starts) print at "\t" text
        }
        BEGIN {
            starts = "^([A-Z_]+=[^ ]* )*(gen|make|out/[^ ]*/(run[.]sh|train|gen)|recipes/[^ ]*[.]sh|torchrun|sbatch|"\
                "srun|mpirun|hf|pip|zcat|tensorboard|[.])( |$)"
        }
        /^```/ { fenced = !fenced; marked = fenced && last ~ /^<!-- walk -->$/; last = ""; next }
        { code = fenced || (/^    / && (blank || code)); text = $0 }
        !fenced { sub(/^    /, "", text) }
        code && (walk == "all" || marked) {
            if (open != "") { text = open " " text; sub(/ +/, " ", text) } else at = FNR
            open = ""
            if (text ~ /\\$/) { open = substr(text, 1, length(text) - 1); next }
            if (text != "" && text !~ /^#/) said(text, at)
        }
        !code && walk == "all" {
            n = split($0, part, "`")
            for (i = 2; i <= n; i += 2)
                if (part[i] ~ /^(gen|make|out\/[^ ]*\/(run.sh|train)) / &&
                    gsub(/"/, "\"", part[i]) % 2 == 0)
                    print FNR "\t" part[i]
        }
        { blank = $0 == "" || (blank && code); last = $0 }' "$1"
}
