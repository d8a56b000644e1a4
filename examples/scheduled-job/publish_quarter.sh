#!/bin/sh
# Publish the last whole quarter once its readings are complete. Safe to run every night.
#   sh publish_quarter.sh JOB [TODAY]
# JOB is a private folder with
#   incoming/2026-Q1/           readings of the quarter, and incoming/2026-Q1.complete, written last
#   series/, series.secrets/    made once by `wattveil series init series --first 2026-Q1 ...`
#   utility.key, utility.key.pub
#   public/                     what the web server offers; everything else is private
# Exit status: 0 published now or before, or readings are not complete; 4 a person must decide, and
# creates the file that the message names to go on; 75 another run is active; 127 `wattveil` is not
# in PATH; otherwise that of the command that failed. Only `wattveil series add` spends budget, once
# per quarter. Decisions, each with a file of its own:
#   incoming/2026-Q1.accept-skipped     the previous quarter is not published: skip it permanently
#   incoming/2026-Q1.accept-warnings    the readings gave warnings
#   incoming/2026-Q1.accept-fewer       less than half as many profiles as in the previous quarter
set -eu
umask 077
[ $# -gt 0 ] || { echo "usage: sh publish_quarter.sh JOB [TODAY]" >&2; exit 2; }
job=$1
today=${2:-$(date +%F)}
cd "$job"

# Two runs at the same time would build the same files.
exec 9>job.lock
flock -n 9 || { echo "another run is active" >&2; exit 75; }

year=${today%%-*}
month=${today#*-}; month=${month%%-*}; month=${month#0}
quarter=$(((month - 1) / 3))
[ "$quarter" -gt 0 ] || { year=$((year - 1)); quarter=4; }
period=$year-Q$quarter
first=$(printf '%d-%02d-01' "$year" $((3 * quarter - 2)))
end=$(printf '%d-%02d-01' $((year + quarter / 4)) $((3 * quarter % 12 + 1)))
previous=$((quarter > 1 ? year : year - 1))-Q$((quarter > 1 ? quarter - 1 : 4))

# decided MARK TEXT: go on only if a person has accepted exactly this.
decided() {
    mark=incoming/$period.accept-$1
    [ -e "$mark" ] || { echo "$period: $2. To go on, create $mark" >&2; exit 4; }
}
profiles_of() {
    [ ! -e "work/$1.json" ] || sed -n 's/^  "profiles": \([0-9]*\),$/\1/p' "work/$1.json"
}

[ ! -d "public/$period" ] || { echo "$period: published before"; exit 0; }
[ -e "incoming/$period.complete" ] || { echo "$period: readings are not complete"; exit 0; }
grep -qs "\"first\": \"$period\"" series/series.json || [ -d "public/$previous" ] ||
    decided skipped "$previous is not published, and would be skipped permanently"
mkdir -p work

# Repeatable: profiles are replaced. The account is private, and so are messages about readings.
wattveil profiles "incoming/$period" --unit kWh --minutes 60 --stamp start --stamps-in UTC \
    --timezone Europe/London --period "$first" "$end" --min-days 14 \
    --problems-to "work/$period.problems.csv" --out "work/$period.parquet" --json \
    >"work/$period.json"
grep -q '"warnings": \[\]' "work/$period.json" ||
    decided warnings "warnings in $job/work/$period.json"
now=$(profiles_of "$period")
then=$(profiles_of "$previous")
[ $((2 * ${now:-0})) -ge "${then:-0}" ] || decided fewer "$now profiles, $then in $previous"

# Not repeatable: it spends the budget of the quarter. Status 3: an earlier run has released it.
status=0
wattveil series add series "work/$period.parquet" --period "$period" --key utility.key --yes \
    --json >"work/$period.added.json" 2>"work/$period.added.txt" || status=$?
case $status in
0) echo "$period: released" ;;
3) echo "$period: released before; nothing was spent" ;; # its message is no fault
*) cat "work/$period.added.txt" >&2; exit "$status" ;; # a person decides: a budget may be spent
esac

# Publish only what verifies, whole or not at all: a rename is one step.
wattveil series verify series --key utility.key.pub >"work/$period.verified.txt"
rm -rf "public/.$period"
newest=$(ls series/periods | tail -n 1) # status 0 or 3: the quarter is the newest of the series
cp -R "series/periods/$newest" "public/.$period"
chmod -R a+rX "public/.$period"
mv "public/.$period" "public/$period"
echo "$period: published"
