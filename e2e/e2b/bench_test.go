//go:build e2e

package e2b_test

import (
	"fmt"
	"os/exec"
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
	b.Run("the default image", func(b *testing.B) { measure(b, dir, images.Default, "always") })
	debian := withDebiansProfile(b)
	b.Run("with Debian's login profile", func(b *testing.B) { measure(b, dir, debian, "always", "ONLY=run") })
	b.Run("with a snapshot of it", func(b *testing.B) { measure(b, dir, debian, "snapshot", "ONLY=run") })
}

func measure(b *testing.B, suite, image, login string, env ...string) {
	g := newRigWith(b, func(sandbox, gateway map[string]any) {
		withoutTLS(nil, gateway)
		sandbox["image"], sandbox["login"] = image, login
		gateway["e2b"].(map[string]any)["pool"] = 4
	})
	g.install(&clients, "bench.mjs")
	origin := fmt.Sprintf("http://127.0.0.1:%d", g.port)
	b.Log("\n" + g.run(append(env, "E2B_API_KEY="+g.key, "E2B_API_URL="+origin, "CORRAL="+origin,
		"ENVD="+g.daemon(suite, image)), "node", "bench.mjs"))
}

// withDebiansProfile makes the default image with the login profile that Debian's and
// Ubuntu's images have, which starts a program.
func withDebiansProfile(b *testing.B) (image string) {
	b.Helper()
	docker := func(args ...string) string {
		b.Helper()
		out, err := exec.Command("docker", args...).CombinedOutput()
		if err != nil {
			b.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	image = "corral/bench-e2b-profile:1"
	made := docker("create", "--label", "corral=bench", "--user", "0:0", "--entrypoint", "cp", images.Default, "/usr/share/base-files/profile", "/etc/profile")
	b.Cleanup(func() { docker("rm", "--force", made) })
	docker("start", "--attach", made)
	docker("commit", "--change", "ENTRYPOINT []", "--change", "USER 1000:1000", made, image)
	b.Cleanup(func() { docker("rmi", "--force", image) })
	return image
}
