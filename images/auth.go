package images

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/registry"

	"github.com/corral-exec/corral/internal/lazy"
)

// Credentials finds those for a registry by its domain, such as "docker.io" or
// "registry.example.com:5000". The zero AuthConfig is none, which is no error.
type Credentials func(ctx context.Context, domain string) (registry.AuthConfig, error)

// helperLimit bounds what a credential helper may take; some ask a key ring.
const helperLimit = 20 * time.Second

// Docker's own registry is filed under the address of its first version.
const dockerHub, dockerHubKey = "docker.io", "https://index.docker.io/v1/"

// DockerCredentials are those that `docker login` keeps for this user: in dir,
// or in DOCKER_CONFIG or ~/.docker if dir is empty. They are read anew for
// each pull.
//
// The format is described in the documentation of docker login, that of the
// helpers at github.com/docker/docker-credential-helpers.
func DockerCredentials(dir string) Credentials {
	return func(ctx context.Context, domain string) (registry.AuthConfig, error) {
		path, err := dockerConfig(dir)
		if err != nil {
			return registry.AuthConfig{}, err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return registry.AuthConfig{}, nil
		}
		if err != nil {
			return registry.AuthConfig{}, err
		}
		var config struct {
			Auths       map[string]storedAuth `json:"auths"`
			CredsStore  string                `json:"credsStore"`
			CredHelpers map[string]string     `json:"credHelpers"`
		}
		if err := json.Unmarshal(data, &config); err != nil {
			return registry.AuthConfig{}, fmt.Errorf("%s: %w", path, err)
		}
		key := domain
		if domain == dockerHub {
			key = dockerHubKey
		}
		helper := config.CredsStore
		if h, ok := config.CredHelpers[key]; ok {
			helper = h
		}
		if helper != "" {
			return helperAuth(ctx, helper, key)
		}
		if auth, ok := config.Auths[key]; ok {
			return auth.decode(key)
		}
		for stored, auth := range config.Auths {
			if hostOf(stored) == domain {
				return auth.decode(key)
			}
		}
		return registry.AuthConfig{}, nil
	}
}

func dockerConfig(dir string) (string, error) {
	dir = cmp.Or(dir, os.Getenv("DOCKER_CONFIG"))
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".docker")
	}
	return filepath.Join(dir, "config.json"), nil
}

// hostOf is the domain of a key that old versions wrote as a URL.
func hostOf(key string) string {
	_, rest, isURL := strings.Cut(key, "://")
	if !isURL {
		rest = key
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}

type storedAuth struct {
	Auth          string `json:"auth"` // base64 of user:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func (a storedAuth) decode(server string) (registry.AuthConfig, error) {
	c := registry.AuthConfig{ServerAddress: server, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if a.Auth != "" {
		text, err := base64.StdEncoding.DecodeString(a.Auth)
		user, password, ok := strings.Cut(string(text), ":")
		if err != nil || !ok { // the cause would show part of the password
			return registry.AuthConfig{}, fmt.Errorf("the stored credentials for %s are not base64 of user:password", server)
		}
		c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	}
	return c, nil
}

var helperName = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// helperAuth asks the program docker-credential-<helper>.
func helperAuth(ctx context.Context, helper, server string) (registry.AuthConfig, error) {
	if !helperName().MatchString(helper) {
		return registry.AuthConfig{}, fmt.Errorf("%q is not the name of a credential helper", helper)
	}
	ctx, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(server)
	cmd.WaitDelay = time.Second
	var stdout bytes.Buffer // never shown: it may hold the secret
	cmd.Stdout = &stdout
	if err := cmd.Run(); err != nil {
		if strings.Contains(stdout.String(), "credentials not found") { // the protocol's word for none
			return registry.AuthConfig{}, nil
		}
		return registry.AuthConfig{}, fmt.Errorf("docker-credential-%s: %w", helper, err)
	}
	var got struct{ Username, Secret string }
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		return registry.AuthConfig{}, fmt.Errorf("docker-credential-%s did not answer with JSON", helper)
	}
	if got.Username == "<token>" {
		return registry.AuthConfig{ServerAddress: server, IdentityToken: got.Secret}, nil
	}
	return registry.AuthConfig{ServerAddress: server, Username: got.Username, Password: got.Secret}, nil
}
