package pairing

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const victimDir = "PAIRING_TEST_VICTIM_DIR"

// victim pairs and revokes until it is killed, and says before and after each
// change what it is about.
func victim(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	r, err := Open(Options{Dir: dir, GatewayKey: gateway, code: quickCode})
	fail(err)
	fmt.Println("opened")
	for n := 0; ; n++ {
		k := key(n % 50)
		if id, is := r.Authorize(k); is {
			fmt.Println("revoking", k)
			_, err = r.Revoke(id, "victim")
			fail(err)
			fmt.Println("revoked", k)
			continue
		}
		_, err := r.Ask(k, netip.Addr{}, Hello{Name: "n"})
		fail(err)
		fmt.Println("pairing", k)
		_, err = r.Approve(k, Approval{By: "victim"})
		fail(err)
		fmt.Println("paired", k)
	}
}

// Killed at any moment, a registry is what it said it was: but for the change
// that was being made, which is done or is not.
func TestKilled(t *testing.T) {
	dir := newDir(t)
	said := map[string]string{}
	total := 0
	for range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimDir+"="+dir)
		out, err := cmd.StdoutPipe()
		ok(t, err)
		ok(t, cmd.Start())
		after := time.Duration(1+rand.IntN(80)) * time.Millisecond
		var timer *time.Timer
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			what, k, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "opened":
				timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
			case "failed":
				t.Errorf("%s", lines.Text())
			default:
				said[k] = what
				total++
			}
		}
		err = cmd.Wait()
		if timer == nil || err == nil {
			t.Fatalf("it was not killed: %v", err)
		}
		timer.Stop()
		r := open(t, dir)
		for k, what := range said {
			_, is := r.Authorize(k)
			if what == "paired" && !is || what == "revoked" && is {
				t.Fatalf("killed after %v: it was %s, and is a node: %t", after, what, is)
			}
		}
		ok(t, r.Close())
	}
	if total == 0 {
		t.Error("nothing was done in that time")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	ok(t, err)
	if len(left) > 3 {
		t.Errorf("it leaves %v", left)
	}
}
