# awk -v capacity=N -f validate.awk INPUT.csv OUTPUT.csv: rows kept in order, offsets disjoint and
# within capacity. Prints nothing when valid, else the first fault.
BEGIN { FS = "," }
function bad(why) { if (!failed) print why; failed = 1; exit 1 }
FNR == 1 { next }
NR == FNR { want[FNR] = $1 "," $2 "," $3 "," $4; rows = FNR; next }
{
    if ($1 "," $2 "," $3 "," $4 != want[FNR]) bad("row " FNR " differs from the input: " $0)
    if ($5 !~ /^[0-9]+$/) bad("row " FNR ": offset is no number: " $5)
    if ($5 + $4 > capacity) bad("row " FNR " ends at " $5 + $4 ", above " capacity)
    for (i = 0; i < n; i++)
        if ($2 < upper[i] && lower[i] < $3 && $5 < top[i] && offset[i] < $5 + $4)
            bad("ids " id[i] " and " $1 " overlap")
    id[n] = $1; lower[n] = $2 + 0; upper[n] = $3 + 0; offset[n] = $5 + 0; top[n++] = $5 + $4
    got = FNR
}
END { if (!failed && got != rows) print "want " rows - 1 " rows, got " got - 1 }
