package pathenv

import "testing"

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"A": true, "Z": true, "a": true, "z": true, "_": true, "A0": true, "A9": true, "A_1": true, "ProgramFiles(x86)": true,
		"": false, "0": false, "9A": false, "(A": false, ")A": false, "A/": false, "A:": false, "A@": false, "A[": false, "A`": false, "A{": false, "A=B": false, "A B": false, "A\x00": false, "é": false,
	} {
		if ValidName(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}

// Names are compared in upper case, whatever they are written in.
func TestNamesInAnyCase(t *testing.T) {
	for _, name := range []string{"my_token", "Db_Password", "github_Token", "MY_API_KEY"} {
		if !isCredential(name) || whyNotInherited(name) != ReasonCredential {
			t.Errorf("%s is no credential", name)
		}
	}
	for _, name := range []string{"ld_preload", "Bash_Env", "ENV"} {
		if !isHook(name) || !refusedFromCall(name) || whyNotInherited(name) != ReasonHook {
			t.Errorf("%s is no hook", name)
		}
	}
	for _, name := range []string{"git_ssh", "Tar_Options", "pip_x", "git_config_x"} {
		if !refusedFromCall(name) {
			t.Errorf("a call may set %s", name)
		}
	}
	if checkDirs([]string{"/a", "\x00"}, ":") == nil || checkDirs([]string{"/a:/b"}, ":") == nil || checkDirs([]string{"/a", "b"}, ":") != nil {
		t.Error("directories of a PATH")
	}
}
