package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is given to install is what the gateway gets.
func TestInstallArguments(t *testing.T) {
	m := &fakeMachine{}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := m.run(t, []string{"CORRAL_SANDBOX=all", "CORRAL_STATE_DIR=/s"}, "gateway", "install", "--print", "--listen", "127.0.0.1:7", "--sandbox-user", "7:8",
		"--memory", "1g", "--keep-for", "90m", "--allow-elevated", "--workspace", ".", "--path-prepend", "/a", "--path-prepend", "/b", "--timeout", "0")
	want := " gateway --state-dir /s --listen 127.0.0.1:7 --timeout 0s --path-prepend /a --path-prepend /b --allow-elevated=true --keep-for 1h30m --sandbox all --workspace " + here + " --user 7:8 --memory 1g\n"
	if code != 0 || !strings.Contains(out, want) {
		t.Errorf("%d, %s%s; want %q", code, out, errs, want)
	}
}

func TestInstall(t *testing.T) {
	m := &fakeMachine{}
	config := t.TempDir()
	environ := []string{"XDG_CONFIG_HOME=" + config, "CORRAL_STATE_DIR=/s"}
	code, out, errs := m.run(t, environ, "gateway", "install", "--user", "--socket")
	dir := filepath.Join(config, "systemd", "user")
	if code != 0 || !strings.HasPrefix(out, "wrote "+dir+"/corral.service\nwrote "+dir+"/corral.socket\n") || !strings.Contains(out, "systemctl --user enable --now corral.socket corral\n") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	code, out, errs = m.run(t, environ, "gateway", "uninstall", "--user")
	if code != 0 || !strings.HasPrefix(out, "removed "+dir+"/corral.service\nremoved "+dir+"/corral.socket\n") {
		t.Errorf("%d, %s%s", code, out, errs)
	}
	code, _, errs = m.run(t, environ, "gateway", "uninstall", "--user")
	if code != 125 || !strings.Contains(errs, "there is no unit") {
		t.Errorf("%d, %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(config, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = m.run(t, []string{"XDG_CONFIG_HOME=" + config + "/file", "CORRAL_STATE_DIR=/s"}, "gateway", "install", "--user")
	if code != 125 || !strings.Contains(errs, "hint: run it as root") {
		t.Errorf("%d, %s", code, errs)
	}
}
