#!/bin/sh
# Install a Connector on this host: its account, its configuration, and its unit.
#
#   install-connector.sh --cluster NAME --proxy HOST:PORT --ca-pin HEX [options]
#
#   --state-dir DIR        where it keeps its state: /var/lib/svc/connector (the default), or a
#                          directory below that, for a second Connector on the host
#   --config FILE          the configuration to write; /etc/svc/connector.toml by default
#   --token-file FILE      where the join token lies; STATE-DIR/join.token by default
#   --account NAME         who runs it; svc-connector by default
#   --svc PROGRAM          the svc to run; the one on the PATH by default
#   --approve-plan DIGEST  carry out the plan that has this digest
#   --dry-run              print the configuration and change nothing
#
# Without --approve-plan it makes the account and writes the configuration, if they are missing (the
# plan names both), prints the plan of `svc setup apply` and its digest, and goes no further.
# Nothing is started.
set -eu

refuse() {
    echo "install-connector: $1" >&2
    exit "${2:-1}"
}

state=/var/lib/svc/connector config=/etc/svc/connector.toml account=svc-connector svc=svc
cluster='' proxy='' pin='' token='' digest='' dry=''
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=yes; shift; continue ;;
    --cluster | --proxy | --ca-pin | --state-dir | --config | --token-file | --account | --svc | --approve-plan)
        [ $# -gt 1 ] || refuse "$1: needs a value" 64 ;;
    *) refuse "$1: is no option; the first lines of $0 list them" 64 ;;
    esac
    case $1 in
    --cluster) cluster=$2 ;;
    --proxy) proxy=$2 ;;
    --ca-pin) pin=$2 ;;
    --state-dir) state=$2 ;;
    --config) config=$2 ;;
    --token-file) token=$2 ;;
    --account) account=$2 ;;
    --svc) svc=$2 ;;
    --approve-plan) digest=$2 ;;
    esac
    shift 2
done
[ -n "$cluster" ] && [ -n "$proxy" ] && [ -n "$pin" ] || refuse "--cluster, --proxy and --ca-pin are needed" 64

case $state/ in
*/../* | */./* | *//*) refuse "--state-dir $state: write it without .., . and empty parts" ;;
/var/lib/svc/connector/*) ;;
*) refuse "--state-dir $state: has to be /var/lib/svc/connector or a directory below it, which is what the unit provides" ;;
esac
[ -n "$token" ] || token=$state/join.token
for word in "$cluster" "$proxy" "$pin" "$state" "$token"; do
    case $word in
    *[!A-Za-z0-9._:/@[\]-]*) refuse "$word: only letters, digits and . _ : / @ [ ] - are allowed here" ;;
    esac
done

text="cluster = \"$cluster\"
state_dir = \"$state\"
join.token_file = \"$token\"
join.ca_pin = \"$pin\"
endpoints.proxy = [\"$proxy\"]"
if [ -n "$dry" ]; then
    echo "$text"
    exit 0
fi

id "$account" >/dev/null 2>&1 || useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin "$account"
if [ -e "$config" ]; then
    [ "$(head -n 5 "$config")" = "$(echo "$text" | head -n 5)" ] ||
        refuse "$config: is there and says something else; remove it, or name another with --config"
else
    [ -d "$(dirname "$config")" ] || install -d -m 755 "$(dirname "$config")"
    # Half a file would be taken for another configuration.
    echo "$text" >"$config.new"
    mv "$config.new" "$config"
fi
set -- --config "$config" setup apply --role connector --account "$account"
if [ -z "$digest" ]; then
    "$svc" "$@" --dry-run
    echo "install-connector: the unit is not installed yet; give the same command --approve-plan with the digest above" >&2
    exit 0
fi
exec "$svc" "$@" --approve-plan "$digest"
