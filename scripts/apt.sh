# shellcheck shell=sh
# Sourced by the scripts that install Debian packages. Sets $sudo, and needs root or sudo.

# fail says why, and ends the script.
fail() {
	echo "${0##*/}: $*" >&2
	exit 1
}

note() {
	echo "${0##*/}: $*" >&2
}

# need_apt ends the script where packages cannot be installed; $1 says what to do instead.
need_apt() {
	command -v apt-get >/dev/null || fail "this machine has no apt-get; $1"
	sudo=
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || fail "installing packages needs root; run scripts/${0##*/} as root"
		sudo=sudo
	fi
}

# apt runs apt-get without questions, waiting for another one that is at work.
apt() {
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2
}

# apt_update reads the package lists again. A source that fails is no reason to stop: what is wanted may come from another.
apt_update() {
	apt update || note "apt-get update had errors; going on with the lists that there are"
}
