//go:build e2e

package e2b_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/images"
)

// BenchmarkSDK has the published SDK do the same in turns in a sandbox of a gateway and in a
// container of the same image with E2B's own daemon, and prints what each took.
func BenchmarkSDK(b *testing.B) {
	dir, ok := suite(b)
	if !ok {
		b.Fatal("there is nothing to compare with: CORRAL_E2B_SUITE names the directory that has envd-linux-amd64.gz, E2B's daemon")
	}
	g := newRigWith(b, func(gateway map[string]any) {
		delete(gateway, "tls") // the daemon has none
		delete(gateway, "domain")
		gateway["e2b"].(map[string]any)["pool"] = 4
	})
	g.install(&clients, "bench.mjs")
	daemon := filepath.Join(g.dir, "envd")
	packed, err := exec.Command("gunzip", "-c", filepath.Join(dir, "envd-linux-amd64.gz")).Output()
	g.ok(err)
	g.ok(os.WriteFile(daemon, packed, 0o755))
	const format = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
	id := strings.TrimSpace(g.run(nil, "docker", "run", "--detach", "--label", "corral=bench", "--user", "0:0", "--volume", daemon+":/envd:ro",
		"--entrypoint", "/envd", images.Default, "-isnotfc", "-port", "49983"))
	b.Cleanup(func() {
		if out, err := exec.Command("docker", "rm", "--force", id).CombinedOutput(); err != nil {
			b.Errorf("%v: %s", err, out)
		}
	})
	origin := fmt.Sprintf("http://127.0.0.1:%d", g.port)
	b.Log("\n" + g.run([]string{
		"E2B_API_KEY=" + g.key, "E2B_API_URL=" + origin, "CORRAL=" + origin,
		"ENVD=http://" + strings.TrimSpace(g.run(nil, "docker", "inspect", "--format", format, id)) + ":49983",
	}, "node", "bench.mjs"))
}
