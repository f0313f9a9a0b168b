package users

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Programs ask which name their user has (ssh, whoami, node), and no image knows
// a user that a container has for itself. So a container's /etc/passwd and
// /etc/group are the image's with one line more: that of the owner of the files,
// with the ID that the container has for it.

// accountName is the name where the image has none for the owner.
const accountName = "sandbox"

// withAccount is an /etc/passwd in which uid has the name and the rest that owner
// has; or, with a home directory, the name of that.
func withAccount(passwd []byte, home string, owner, uid, gid int) []byte {
	fields := accountOf(passwd, owner)
	switch {
	case home != "":
		name := path.Base(home)
		passwd = without(passwd, name)
		fields = []string{name, "x", "", "", "", home, "/bin/sh"}
	case len(fields) < 7:
		fields = []string{freeName(passwd), "x", "", "", "", engine.Workdir, "/bin/sh"}
	}
	fields[2], fields[3] = strconv.Itoa(uid), strconv.Itoa(gid)
	return appendLine(passwd, strings.Join(fields, ":"))
}

// withGroup is the same of an /etc/group.
func withGroup(group []byte, home string, owner, gid int) []byte {
	fields := accountOf(group, owner)
	switch {
	case home != "":
		name := path.Base(home)
		group = without(group, name)
		fields = []string{name, "x", "", ""}
	case len(fields) < 4:
		fields = []string{freeName(group), "x", "", ""}
	}
	fields[2] = strconv.Itoa(gid)
	return appendLine(group, strings.Join(fields, ":"))
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

// without is the text without the lines of a name.
func without(text []byte, name string) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(name+":")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// freeName is a name that no account has.
func freeName(text []byte) string {
	name := accountName
	for bytes.HasPrefix(text, []byte(name+":")) || bytes.Contains(text, []byte("\n"+name+":")) {
		name += "_"
	}
	return name
}

func appendLine(text []byte, line string) []byte {
	text = bytes.Clone(text)
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	return append(append(text, line...), '\n')
}
