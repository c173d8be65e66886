#!/usr/bin/env bash
# A Fencepost worker in bash: ./worker.sh DATABASE_URL TYPE[,TYPE...] COMMAND [ARGUMENT...]
#
# The command reads a job's payload from its input and prints its result, JSON or nothing. When it fails, its error
# output is the error; exit code 65 says that trying again is useless. See README.md for the protocol.
url=$1 types=$2 && shift 2
limit=${JOB_SECONDS:-300}                                    # no job runs longer: so it needs no heartbeat
name="bash-$(hostname)-$$" stopping=''
files=$(mktemp -d) && trap 'rm -rf "$files"' EXIT && trap 'stopping=yes' TERM INT
export PGCONNECT_TIMEOUT=5

sql() {
  psql "$url" -XqAt -v ON_ERROR_STOP=1 -v name="$name" -v types="$types" -v ttl="$((limit + 30)) s" \
    -v id="$id" -v token="$token" -v code="$code" -v files="$files" <<< "$1"
}
answered() {                                                 # asks again, while psql lost the server (2)
  until sql "$1" > /dev/null; do [ $? = 2 ] || return 1; sleep 1; done
}

register="select fencepost.register_worker(:'name', types => string_to_array(:'types', ','), ttl => :'ttl')"
claim="select job_id, token, payload from fencepost.claim(:'name', string_to_array(:'types', ','), 1, :'ttl')"
complete="\\set result \`cat :'files'/result\`
  select fencepost.complete(:id, :token, nullif(:'result', '')::jsonb)"
fail="\\set error \`iconv -cf utf-8 -t utf-8 < :'files'/error\`
  select fencepost.fail(:id, :token, coalesce(nullif(:'error', ''), 'exit code ' || :'code'), permanent => :code = 65)"
stop="select fencepost.stop_worker(id) from fencepost.workers where name = :'name' and status = 'active'"

answered "$register"
while [ -z "$stopping" ]; do
  if ! job=$(sql "$claim"); then                             # it may have claimed a job of which we were not told
    sleep 1; answered "$register"
  elif [ -z "$job" ]; then                                   # nothing to do: a share of the engine's housekeeping
    sleep 1; answered 'select fencepost.maintain()'
  else
    IFS='|' read -r id token payload <<< "$job"              # a jsonb prints as one line
    timeout -k 10 "$limit" "$@" <<< "$payload" > "$files/result" 2> "$files/error"; code=$?
    { [ "$code" = 0 ] && answered "$complete" 2>> "$files/error"; } || answered "$fail" ||
      echo "$name: job $id was refused, see above" >&2       # JE001: the lease was lost, another attempt has the job
  fi
done
answered "$stop"
