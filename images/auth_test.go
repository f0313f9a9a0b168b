package images

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/registry"
)

func TestDockerCredentials(t *testing.T) {
	const hub = "https://index.docker.io/v1/"
	bin := t.TempDir()
	helper := func(name, script string) {
		if err := os.WriteFile(filepath.Join(bin, "docker-credential-"+name), []byte("#!/bin/sh\nread -r server || :\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	helper("ring", `echo '{"ServerURL":"'"$server"'","Username":"u@'"$server"'","Secret":"s"}'`)
	helper("token", `echo '{"Username":"<token>","Secret":"t"}'`)
	helper("empty", `echo credentials not found in native keychain; exit 1`)
	helper("broken", `echo Secret: s; exit 1`)
	helper("chatty", `echo hello`)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))

	// Podman keeps credentials for parts of a registry, too.
	repositories := ""
	for i := range 50 {
		repositories += fmt.Sprintf(`"r.example/team%d":{"auth":"b3RoZXI6eA=="},`, i)
	}

	for _, tt := range []struct {
		name, config, domain string
		want                 registry.AuthConfig
		err                  string
	}{
		{name: "no file", domain: "docker.io"},
		{name: "not logged in", config: `{}`, domain: "docker.io"},
		{"stored", `{"auths":{"r.example:5000":{"auth":"dTpwOmFzcw=="}}}`, "r.example:5000", registry.AuthConfig{ServerAddress: "r.example:5000", Username: "u", Password: "p:ass"}, ""},
		{"stored for the hub", `{"auths":{"` + hub + `":{"auth":"dTpw"}}}`, "docker.io", registry.AuthConfig{ServerAddress: hub, Username: "u", Password: "p"}, ""},
		{"stored as a URL", `{"auths":{"https://r.example/v1/":{"auth":"dTpw"}}}`, "r.example", registry.AuthConfig{ServerAddress: "r.example", Username: "u", Password: "p"}, ""},
		{"stored as Podman does it", `{"auths":{"docker.io":{"auth":"dTpw"}}}`, "docker.io", registry.AuthConfig{ServerAddress: hub, Username: "u", Password: "p"}, ""},
		{"tokens", `{"auths":{"r.example":{"auth":"dTo=","identitytoken":"i","registrytoken":"r"}}}`, "r.example", registry.AuthConfig{ServerAddress: "r.example", Username: "u", IdentityToken: "i", RegistryToken: "r"}, ""},
		{"stored among repositories of the registry", `{"auths":{` + repositories + `"r.example":{"auth":"dTpw"}}}`, "r.example", registry.AuthConfig{ServerAddress: "r.example", Username: "u", Password: "p"}, ""},
		{name: "stored for another", config: `{"auths":{"r.example":{"auth":"dTpw"}}}`, domain: "evil-r.example"},
		{"stored badly", `{"auths":{"r.example":{"auth":"c2VjcmV0"}}}`, "r.example", registry.AuthConfig{}, "base64 of user:password"},
		{"stored next to one that is stored badly", `{"auths":{"a.example":{"auth":"c2VjcmV0"},"r.example":{"auth":"dTpw"}}}`, "r.example", registry.AuthConfig{ServerAddress: "r.example", Username: "u", Password: "p"}, ""},
		{"a store", `{"credsStore":"ring"}`, "docker.io", registry.AuthConfig{ServerAddress: hub, Username: "u@" + hub, Password: "s"}, ""},
		{"a helper beats the store", `{"credsStore":"broken","credHelpers":{"r.example":"token"}}`, "r.example", registry.AuthConfig{ServerAddress: "r.example", IdentityToken: "t"}, ""},
		{name: "a helper without any", config: `{"credsStore":"empty"}`, domain: "r.example"},
		{"a helper that fails", `{"credsStore":"broken"}`, "r.example", registry.AuthConfig{}, "exit status 1"},
		{"a helper that answers nonsense", `{"credsStore":"chatty"}`, "r.example", registry.AuthConfig{}, "JSON"},
		{"a helper that is not there", `{"credsStore":"missing"}`, "r.example", registry.AuthConfig{}, "docker-credential-missing"},
		{"a helper with a path", `{"credsStore":"../x"}`, "r.example", registry.AuthConfig{}, "not the name"},
		{"not JSON", `{`, "r.example", registry.AuthConfig{}, "config.json"},
	} {
		dir := t.TempDir()
		if tt.config != "" {
			if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := DockerCredentials(dir)(t.Context(), tt.domain)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the secret: %v", tt.name, err)
		}
	}
}
