package pathenv

import (
	"slices"
	"strings"
	"testing"
)

func TestShell(t *testing.T) {
	const fish, bash, sh = "/usr/bin/fish", "/opt/bin/bash", "/bin/sh"
	const pwsh = `-NoProfile -NonInteractive -Command`
	tests := []struct {
		name    string
		goos    string
		profile Profile
		env     map[string]string
		path    string
		exists  []string
		want    string
	}{
		{"set", "linux", "", map[string]string{"SHELL": "/bin/zsh"}, "", nil, "/bin/zsh -c"},
		{"unset", "linux", "", nil, "/bin", []string{sh}, "sh -c"},
		{"blank", "darwin", "", map[string]string{"SHELL": " "}, "", nil, "sh -c"},
		{"an account without a shell", "linux", "", map[string]string{"SHELL": "/usr/sbin/nologin"}, "", nil, "sh -c"},
		{"fish, bash there", "linux", "", map[string]string{"SHELL": fish}, "/bin:/opt/bin", []string{sh, bash}, bash + " -c"},
		{"fish, no bash", "linux", "", map[string]string{"SHELL": fish}, "/bin:/opt/bin", []string{sh}, sh + " -c"},
		{"fish, neither", "linux", "", map[string]string{"SHELL": fish}, "/bin:/opt/bin", nil, fish + " -c"},
		{"fish, a bash in the workspace", "linux", "", map[string]string{"SHELL": fish}, ".:bin::/bin", []string{"./bash", "bin/bash", "/bash", sh}, sh + " -c"},
		{"run_shell_command", "linux", ProfileQwen, map[string]string{"SHELL": "/bin/zsh"}, "/opt/bin", []string{bash}, bash + " -c"},
		{"run_shell_command, no bash", "linux", ProfileAsimi, map[string]string{"SHELL": "/bin/zsh"}, "/bin", []string{sh}, "bash -c"},

		{"PowerShell 7", "windows", "", map[string]string{"ProgramFiles": `C:\P`, "SystemRoot": `C:\W`}, "", []string{`C:\P\PowerShell\7\pwsh.exe`, `C:\W\System32\WindowsPowerShell\v1.0\powershell.exe`}, `C:\P\PowerShell\7\pwsh.exe ` + pwsh},
		{"PowerShell 7, 64 bit", "windows", "", map[string]string{"ProgramFiles": `C:\P86`, "ProgramW6432": `C:\P`}, "", []string{`C:\P\PowerShell\7\pwsh.exe`}, `C:\P\PowerShell\7\pwsh.exe ` + pwsh},
		{"pwsh on PATH", "windows", "", map[string]string{"SystemRoot": `C:\W`}, `C:\a;D:\b`, []string{`D:\b\pwsh.exe`, `C:\W\System32\WindowsPowerShell\v1.0\powershell.exe`}, `D:\b\pwsh.exe ` + pwsh},
		{"nothing known", "windows", "", nil, "", nil, `powershell.exe ` + pwsh},
		{"run_shell_command", "windows", ProfileQwen, nil, "", nil, `cmd.exe /d /s /c`},
	}
	for _, test := range tests {
		t.Run(test.goos+"/"+test.name, func(t *testing.T) {
			got := strings.Join(Shell(ShellOptions{
				GOOS: test.goos, Profile: test.profile, Path: test.path,
				Getenv:     func(name string) string { return test.env[name] },
				Executable: func(file string) bool { return slices.Contains(test.exists, file) },
			}), " ")
			if got != test.want {
				t.Errorf("Shell = %s, want %s", got, test.want)
			}
		})
	}
}
