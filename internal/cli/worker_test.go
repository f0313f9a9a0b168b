package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong with a worker is said before anything is started, and no message has the key.
func TestWorkerClaude(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if err := os.WriteFile(key, []byte("two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env  []string
		args string
		want string
	}{
		{nil, "", "not said which environment"},
		{nil, "--environment e --sessions 0", "no session could run"},
		{nil, "--environment e --api ftp://x", "is no address"},
		{nil, "--environment e --api http://example.com", "for all on the way to read"},
		{nil, "--environment e", "no key of the environment"},
		{nil, "--environment e --key-file " + dir + "/none", "no such file"},
		{nil, "--environment e --key-file " + key, "has no key"},
		{[]string{"ANTHROPIC_ENVIRONMENT_ID=e", "ANTHROPIC_BASE_URL=http://127.0.0.1:1", "ANTHROPIC_ENVIRONMENT_KEY=secret"}, "", "by the program corral-worker-claude, which is neither in"},
	} {
		t.Setenv("PATH", dir)
		code, _, got := (&fakeMachine{}).run(t, tc.env, append([]string{"worker", "claude"}, strings.Fields(tc.args)...)...)
		if code == 0 || !strings.Contains(got, tc.want) || !strings.Contains(got, "hint: ") || strings.Contains(got, "secret") {
			t.Errorf("%q: %d %s, want %q", tc.args, code, got, tc.want)
		}
	}
}
