#!/bin/sh
# Installs the wheel of this folder into a folder of its own and runs the GPU tests of the Python package with it.
# Needs python3 with pip, torch and pytest. Arguments go to pytest; with --install nothing is run.
cd "$(dirname "$0")" || exit 1
site=${SITE:-$PWD/site}
python3 -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$site" ./*.whl || exit 1
PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
if [ "$1" = --install ]; then
    echo "export PYTHONPATH=$PYTHONPATH"
    exit 0
fi
exec python3 -m pytest -p no:cacheprovider python "$@"
