package users

import (
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/files"
)

// Nobody runs commands when no other user is named.
const Nobody = "65534:65534"

// Check says why commands of a sandbox cannot run as a user, which is a uid:gid.
func Check(user string) error {
	uid, gid, ok := strings.Cut(user, ":")
	for _, s := range []string{uid, gid} {
		n, err := strconv.ParseUint(s, 10, 31)
		if !ok || err != nil || strconv.FormatUint(n, 10) != s {
			return corral.Errorf(corral.ErrInvalid, "use numbers, such as 1000:1000", "%q is not a user and group for the sandbox", user)
		}
	}
	if uid == "0" {
		return &boundary.Refusal{Rule: boundary.UserRoot, Subject: user, Why: "commands in a sandbox do not run as root", Fix: "name an unprivileged user, such as " + Nobody}
	}
	return nil
}

// Parse reads a uid:gid that Check has checked.
func Parse(user string) (u files.User) {
	uid, gid, _ := strings.Cut(user, ":")
	u.UID, _ = strconv.Atoi(uid)
	u.GID, _ = strconv.Atoi(gid)
	return u
}
