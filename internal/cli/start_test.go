package cli

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Every command waits for what packages make before main begins. What a few commands
// need is made by them: see internal/lazy.
func TestPackagesMakeLittleAtStart(t *testing.T) {
	const most, mostOfOne = 256 << 10, 64 << 10 // bytes; it was 3 MB once, in 6 ms
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Args[0] = "corral" // in a test, patterns are compiled at once
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	packages, sum := 0, 0
	for line := range strings.Lines(string(out)) {
		// init PACKAGE @T ms, N ms clock, BYTES bytes, N allocs
		f := strings.Fields(line)
		if len(f) != 11 || f[0] != "init" || !strings.HasPrefix(f[1], "github.com/corral-exec/corral/") || strings.Contains(f[1], "/internal/test/") {
			continue
		}
		n, err := strconv.Atoi(f[7])
		if err != nil {
			t.Fatal(line)
		}
		packages, sum = packages+1, sum+n
		if n > mostOfOne {
			t.Errorf("%s allocates %d bytes at start, more than %d", f[1], n, mostOfOne)
		}
	}
	if packages < 5 {
		t.Fatalf("only %d packages of this module are in the trace:\n%s", packages, out)
	}
	if sum > most {
		t.Errorf("packages of this module allocate %d bytes at start, more than %d", sum, most)
	}
}
