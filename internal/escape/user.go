package escape

import (
	"errors"
	"fmt"
	"strings"
)

// UserScript prints the input of HostUser, in a sandbox with cat.
const UserScript = "cat /proc/self/status; echo -; cat /proc/self/uid_map; echo -; cat /proc/self/gid_map"

// HostUser is the UID:GID on the host of a process in a sandbox. output is the output of
// UserScript in that sandbox.
func HostUser(output string) (string, error) {
	parts := strings.Split(output, "\n-\n")
	if len(parts) != 3 {
		return "", errors.New("a sandbox does not say which user it has")
	}
	var ids [2]int64
	for i, name := range []string{"\nUid:", "\nGid:"} {
		_, rest, _ := strings.Cut("\n"+parts[0], name)
		var inside int64
		if _, err := fmt.Sscan(rest, &inside); err != nil {
			return "", fmt.Errorf("a sandbox does not say which user it has: %w", err)
		}
		ids[i] = inside
		for line := range strings.Lines(parts[1+i]) {
			var first, outside, size int64
			if n, _ := fmt.Sscan(line, &first, &outside, &size); n == 3 && inside >= first && inside-first < size {
				ids[i] = outside + inside - first
			}
		}
	}
	return fmt.Sprintf("%d:%d", ids[0], ids[1]), nil
}
