#!/bin/sh
# Make the flagship release: a signed bundle about 5,300 simulated customers, with its records.
#   sh examples/flagship-release/make_release.sh FOLDER
# CUSTOMERS and DAYS make a smaller one with the same public choices.
set -eu
folder=$1
mkdir -p "$folder"

wattveil simulate --customers "${CUSTOMERS:-5300}" --days "${DAYS:-56}" --seed 30 --out "$folder/readings.parquet"
wattveil profiles "$folder/readings.parquet" --attributes "$folder/readings.attributes.parquet" --timezone Europe/London --out "$folder/profiles.parquet"
wattveil admin key --out "$folder/utility.key"
wattveil release "$folder/profiles.parquet" --epsilon 2 --delta 1e-6 --clusters 6 --clip-kw 4 \
    --by class --levels single,couple,family,retired,electric_heating,pv,ev,night_shift --customers 5000 --typical-kw 0.5 \
    --title "Load of 5,300 simulated customers" --curator "Wattveil" --region "simulated" \
    --intended-use "Example of a complete release" --selection "all customers" --all-meters 5300 --licence CC-BY-4.0 \
    --key "$folder/utility.key" --out "$folder/bundle" --yes
wattveil verify "$folder/bundle" --key "$folder/utility.key.pub"
wattveil metadata "$folder/bundle" --url https://data.example/releases/flagship --out "$folder/metadata"
