package doctor

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/corral-exec/corral/sandbox"
)

// Users says whether sandboxes have users of their own, and whether the IDs of these are
// used by others too.
func Users(cfg sandbox.Config, f EngineFacts) Finding {
	const name = "users"
	if cfg.Isolation.Root {
		return Fine(name, "commands are root in sandboxes (sandbox.root), and outside the owner of their files")
	}
	why, err := cfg.SharedUser(f.Info)
	if err != nil { // corral sandbox explain shows the details
		return Failed(name, err, "It is not known which users sandboxes have.")
	}
	of := cmp.Or(cfg.Isolation.UIDRange, sandbox.DefaultUIDRange)
	var taken []string
	if why == "" {
		taken = append(namesIn("/etc/passwd", of, accountID), namesIn("/etc/subuid", of, subordinateIDs)...)
	}
	return usersFinding(of, why, taken)
}

func usersFinding(of, why string, taken []string) Finding {
	const name = "users"
	switch {
	case why != "":
		c := Fine(name, "sandboxes run as the owner of their files: %s", why)
		c.Meaning = "Sandboxes of one user share what the kernel counts for each user (pipes, inotify, descriptors on their way): one can use up what the others need."
		if strings.HasPrefix(why, "sandbox.uidRange") {
			c.Status, c.Fix = Warn, "leave sandbox.uidRange out, unless something cannot do with users of their own"
		}
		return c
	case len(taken) > 0:
		return Finding{Name: name, Status: Warn, Summary: fmt.Sprintf("some of the users that sandboxes have (%s) are others' too: %s", of, strings.Join(taken, ", ")),
			Meaning: "Processes of the same user as a sandbox can signal its commands, and share what the kernel counts for the user.", Fix: "have a sandbox.uidRange with no other users in it"}
	}
	return Fine(name, "each sandbox has a user of its own, of %s", of)
}

// accountID is the ID of a line of /etc/passwd, and subordinateIDs are the IDs of a line of
// /etc/subuid.
func accountID(fields []string) (first, n int, ok bool) {
	if len(fields) < 3 {
		return 0, 0, false
	}
	first, err := strconv.Atoi(fields[2])
	return first, 1, err == nil
}

func subordinateIDs(fields []string) (first, n int, ok bool) {
	if len(fields) != 3 {
		return 0, 0, false
	}
	first, err := strconv.Atoi(fields[1])
	n, nerr := strconv.Atoi(fields[2])
	return first, n, errors.Join(err, nerr) == nil
}

// maxNames is the most accounts that are named as clashing with a range.
const maxNames = 3

// namesIn are the accounts that have IDs of the range "of", by a file.
func namesIn(file, of string, ids func([]string) (int, int, bool)) []string {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []string{file + " cannot be read"}
	}
	defer f.Close()
	a, b, _ := strings.Cut(of, "-")
	first, _ := strconv.Atoi(a) // the configuration has checked it
	last, _ := strconv.Atoi(b)
	var names []string
	for lines := bufio.NewScanner(f); len(names) < maxNames && lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if at, n, ok := ids(fields); ok && at <= last && at+n > first {
			names = append(names, fields[0]+" ("+file+")")
		}
	}
	return names
}
