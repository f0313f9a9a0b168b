package policy

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A leaf is a program that runs no other programs by itself, or only its helpers. If
// its arguments make it run another (Segment.Inline), this table does not apply.
type leaf struct {
	helpers []string // names, or directories with a slash at the end
	writes  []string // where it writes beside the workspace, without being told to

	only string // if set, the only subcommands for which this holds
}

// leafTable lists the leaves. Programs with the same properties share an entry.
var leafTable = []struct {
	names string
	leaf
}{
	// Coreutils, and similar programs.
	{`arch b2sum base32 base64 basename basenc cat chcon chgrp chmod chown cksum comm cp csplit cut date dd df dir dircolors dirname du
		echo env expand expr factor false fmt fold groups head hostid id join link ln logname ls md5sum mkdir mkfifo mknod mktemp mv nice
		nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd readlink realpath rm rmdir seq sha1sum sha224sum sha256sum
		sha384sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee test [ timeout touch tr true truncate tsort
		tty uname unexpand uniq unlink users vdir wc who whoami yes`, leaf{}},
	{"install", leaf{helpers: []string{"strip"}}},
	{`cal clear cmp col colrm column diff find free getconf getent hexdump hostname ionice join less locale locate look lsblk lscpu lsof
		mountpoint namei pgrep pidof ps pstree rev setarch setpriv setsid chrt choom prlimit strings taskset time top tput tree ul uptime
		vmstat w whereis`, leaf{}},
	{"xargs", leaf{helpers: []string{"echo"}}},
	{"diff3 sdiff", leaf{helpers: []string{"diff"}}},
	{"flock watch", leaf{helpers: []string{"sh"}}},
	{"which which.debianutils", leaf{}},

	// Text and data.
	{"grep rg ag sed awk mawk gawk nawk original-awk bc dos2unix unix2dos envsubst fd fdfind file iconv jq gojq msgfmt tidy xmllint xxd yq sqlite3", leaf{}},
	{"egrep fgrep rgrep", leaf{helpers: []string{"grep"}}},

	// Archives.
	{"ar bzip2 bunzip2 bzcat cpio gzip lz4 unzip unxz unzstd xz xzcat zipinfo zstd zstdcat", leaf{}},
	{"gunzip zcat", leaf{helpers: []string{"gzip"}}},
	{"tar bsdtar", leaf{helpers: []string{"sh", "bzip2", "compress", "gzip", "lzip", "lzma", "lzop", "xz", "zstd"}}},
	{"zip", leaf{helpers: []string{"sh", "unzip"}}},

	// The network.
	{"curl dig host nc nc.openbsd nc.traditional nslookup openssl tcpdump wget whois", leaf{}},
	{"ssh-keygen", leaf{}},
	{"rsync", leaf{helpers: []string{"rsync"}}},

	// Git's own programs are in directories of their own; some are scripts.
	{"git", leaf{
		helpers: []string{
			"/usr/lib/git-core/", "/usr/libexec/git-core/", "/usr/local/libexec/git-core/",
			"git", "sh", "basename", "cat", "cut", "dirname", "expr", "grep", "sed", "sort", "tr", "uname", "wc",
		},
	}},

	// The package manager fetches with programs of its own. Installing runs scripts of
	// packages, so it is not in the list.
	{"apt-get apt apt-cache", leaf{
		helpers: []string{"/usr/lib/apt/", "dpkg", "gpgv", "sh"},
		writes:  []string{"/var/lib/apt", "/var/cache/apt", "/var/log/apt"},
		only:    "update download changelog indextargets check clean autoclean list search show showpkg showsrc depends rdepends policy madison pkgnames dump stats unmet",
	}},
	{"dpkg-query dpkg-deb apt-config", leaf{}},
}

// leaves is the table by name.
var leaves = sync.OnceValue(func() map[string]*leaf {
	table := map[string]*leaf{}
	for i := range leafTable {
		for name := range strings.FieldsSeq(leafTable[i].names) {
			table[name] = &leafTable[i].leaf
		}
	}
	return table
})

// runner says why this use of the program may run unknown programs; empty: it does not.
func (l *leaf) runner(words []Word) string {
	if l.only == "" {
		return ""
	}
	for _, w := range words[1:] {
		if !w.Static {
			return "which command of it this is is not known"
		}
		if strings.HasPrefix(w.Text, "-") {
			continue
		}
		if slices.Contains(strings.Fields(l.only), w.Text) {
			return ""
		}
		return fmt.Sprintf("what %s %s runs is not known", words[0].Text, brief(w.Text))
	}
	return ""
}
