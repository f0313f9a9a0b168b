//go:build unix

package foreground

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The program that reads a server's log may end or start anew: the server goes on.
func TestServingWithoutReader(t *testing.T) {
	const asServer = "CORRAL_TEST_SERVING"
	if os.Getenv(asServer) != "" {
		_, stop := Serving(t.Context())
		defer stop()
		fmt.Fprintln(os.Stderr, "a line that nobody reads")
		os.Exit(7)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	server := exec.Command(os.Args[0], "-test.run=^TestServingWithoutReader$")
	server.Env, server.Stderr = append(os.Environ(), asServer+"=1"), w
	if err := server.Run(); server.ProcessState.ExitCode() != 7 {
		t.Error(err)
	}
}
