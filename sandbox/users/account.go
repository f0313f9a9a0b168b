package users

import (
	"bytes"
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral/sandbox/files"
)

// Programs ask for the name, the home directory and the shell of their user (ssh, whoami,
// node, tmux), and no image knows a user that a container has for itself, or the home
// directory that commands have. So a container's /etc/passwd and /etc/group are the image's
// with one line more: that of the owner of the files, with the ID that the container has
// for it. It comes before the lines of the image with that name or ID, since the first counts.

// An Account is what an image does not know of the user of commands.
type Account struct {
	Name string // empty: the image's name for the owner of the files, or one that is free
	Home string
}

// MaxAccounts bounds an image's /etc/passwd, in bytes.
const MaxAccounts = 1 << 20

// A File of an image is changed for a container.
type File struct {
	Path   string // without a slash before it
	Change func([]byte) []byte
}

// Files are those by which a container's user, shown, has the account; without a name in that
// the one that the image has for owner. Root has a name, and may change these files: they stay.
func (a Account) Files(owner, shown files.User) []File {
	if shown.UID == 0 {
		return nil
	}
	return []File{
		{"etc/passwd", func(b []byte) []byte { return a.inPasswd(b, owner.UID, shown.UID, shown.GID) }},
		{"etc/group", func(b []byte) []byte { return a.inGroup(b, owner.GID, shown.GID) }},
	}
}

// accountName is the name where the image has none for the owner.
const accountName = "sandbox"

// inPasswd is an /etc/passwd in which uid has the account, and the rest that owner has.
func (a Account) inPasswd(passwd []byte, owner, uid, gid int) []byte {
	fields := accountOf(passwd, owner)
	if a.Name != "" || len(fields) < 7 {
		fields = []string{cmp.Or(a.Name, freeName(passwd)), "x", "", "", "", "", ""}
	}
	fields[2], fields[3], fields[5] = strconv.Itoa(uid), strconv.Itoa(gid), a.Home
	switch path.Base(fields[6]) {
	case ".", "nologin", "false": // tmux and screen would start that
		fields[6] = "/bin/sh"
	}
	return insert(passwd, fields)
}

// inGroup is the same of an /etc/group.
func (a Account) inGroup(group []byte, owner, gid int) []byte {
	fields := accountOf(group, owner)
	if a.Name != "" || len(fields) < 4 {
		fields = []string{cmp.Or(a.Name, freeName(group)), "x", "", ""}
	}
	fields[2] = strconv.Itoa(gid)
	return insert(group, fields)
}

// accountOf is the first line for an ID, which is the third field in both files.
func accountOf(text []byte, id int) []string {
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(fields) > 2 && fields[0] != "" && fields[2] == strconv.Itoa(id) {
			return fields
		}
	}
	return nil
}

// freeName is a name that no account has.
func freeName(text []byte) string {
	name := accountName
	for bytes.HasPrefix(text, []byte(name+":")) || bytes.Contains(text, []byte("\n"+name+":")) {
		name += "_"
	}
	return name
}

// insert puts a line before the first one with its name or its ID, or else at the end.
func insert(text []byte, line []string) []byte {
	var before []byte
	for l := range bytes.Lines(text) {
		if f := strings.Split(string(l), ":"); f[0] == line[0] || len(f) > 2 && f[2] == line[2] {
			break
		}
		before = append(before, l...)
	}
	after := text[len(before):]
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		before = append(before, '\n')
	}
	return slices.Concat(before, []byte(strings.Join(line, ":")+"\n"), after)
}
