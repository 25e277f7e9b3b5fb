package arch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/globalfs/globalfs/internal/cli"
)

const (
	manifests      = "../../deploy/kubernetes"
	kubernetesPage = "../../docs/quickstart-kubernetes.md"
)

// manifest is the part of a Kubernetes object that the test checks.
type manifest struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Resources []string `yaml:"resources"` // of a Kustomization
	Images    []struct {
		Name string `yaml:"name"`
	} `yaml:"images"`
	Spec struct {
		podSpec     `yaml:",inline"` // of a Pod
		Replicas    int              `yaml:"replicas"`
		ServiceName string           `yaml:"serviceName"`
		Ports       []port           `yaml:"ports"` // of a Service
		Template    struct {
			Spec podSpec `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type podSpec struct {
	Security   security    `yaml:"securityContext"`
	Containers []container `yaml:"containers"`
	Volumes    []struct {
		Name   string `yaml:"name"`
		Secret struct {
			Name string `yaml:"secretName"`
		} `yaml:"secret"`
		Config struct {
			Name string `yaml:"name"`
		} `yaml:"configMap"`
	} `yaml:"volumes"`
}

type container struct {
	Image    string   `yaml:"image"`
	Command  []string `yaml:"command"`
	Args     []string `yaml:"args"`
	Ports    []port   `yaml:"ports"`
	Security security `yaml:"securityContext"`
	Mounts   []struct {
		Name string `yaml:"name"`
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type security struct {
	NonRoot      bool  `yaml:"runAsNonRoot"`
	User         int   `yaml:"runAsUser"`
	Privileged   bool  `yaml:"privileged"`
	Escalation   *bool `yaml:"allowPrivilegeEscalation"`
	ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
	Capabilities struct {
		Drop []string `yaml:"drop"`
	} `yaml:"capabilities"`
}

type port struct {
	Name      string `yaml:"name"`
	Port      int    `yaml:"port"`
	Container int    `yaml:"containerPort"`
}

// pod returns the pod of an object; nil: it makes none.
func (m *manifest) pod() *podSpec {
	switch m.Kind {
	case "Pod":
		return &m.Spec.podSpec
	case "StatefulSet", "DaemonSet", "Deployment":
		return &m.Spec.Template.Spec
	}
	return nil
}

// readManifests returns all objects by file.
func readManifests(t *testing.T) map[string][]manifest {
	paths, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	require.NoError(t, err)
	all := map[string][]manifest{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var m manifest
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, path)
			all[filepath.Base(path)] = append(all[filepath.Base(path)], m)
		}
	}
	return all
}

// commandLine matches a command of the program with its flags, to the end of the line.
var commandLine = regexp.MustCompile(`(?m)(?:^|[ '])globalfs ((?:init|certs|status|server|mount|umount|admin)(?: (?:servers|admin))?) [^\n]*`)

// checkFlags requires that each flag of each command in a text exists, and returns the number of flags.
func checkFlags(t *testing.T, text string) (checked int) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, m := range commandLine.FindAllStringSubmatch(text, -1) {
		var help bytes.Buffer
		require.Zero(t, cli.Main(append(strings.Fields(m[1]), "--help"), &help, &help), "%s: %s", m[0], &help)
		for _, flag := range regexp.MustCompile(` --[a-z-]+`).FindAllString(m[0], -1) {
			require.Contains(t, help.String(), flag, m[0])
			checked++
		}
	}
	return checked
}

// TestKubernetesFlags: the commands in the manifests and on their page have only flags that exist.
func TestKubernetesFlags(t *testing.T) {
	flags := 0
	for file, objects := range readManifests(t) {
		for _, m := range objects {
			if m.pod() == nil {
				continue
			}
			for _, c := range m.pod().Containers {
				n := checkFlags(t, strings.Join(append(slices.Clone(c.Command), c.Args...), "\n"))
				require.False(t, n == 0 && (file == "servers.yaml" || file == "mount.yaml"), file)
				flags += n
			}
		}
	}
	require.GreaterOrEqual(t, flags, 10)
	page, err := os.ReadFile(kubernetesPage)
	require.NoError(t, err)
	require.GreaterOrEqual(t, checkFlags(t, string(page)), 8)
}

// TestKubernetesPods: no container but that of the mount has privileges. Images, ports, Services, Secrets and
// ConfigMaps fit together, and with the image's user, the cluster file and the page.
func TestKubernetesPods(t *testing.T) {
	all := readManifests(t)
	page, err := os.ReadFile(kubernetesPage)
	require.NoError(t, err)
	image, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	require.Len(t, all["kustomization.yaml"], 1)
	kustomization := all["kustomization.yaml"][0]
	services, budgets, images := map[string][]port{}, map[string]bool{}, []string{}
	for _, i := range kustomization.Images {
		images = append(images, i.Name)
	}
	for file, objects := range all {
		if file != "kustomization.yaml" && file != "example-pod.yaml" {
			require.Contains(t, kustomization.Resources, file)
		}
		for _, m := range objects {
			switch m.Kind {
			case "Service":
				services[m.Metadata.Name] = m.Spec.Ports
			case "PodDisruptionBudget":
				budgets[m.Metadata.Name] = true
			}
		}
	}
	pods := 0
	for file, objects := range all {
		for _, m := range objects {
			pod := m.pod()
			if pod == nil {
				continue
			}
			pods++
			require.Len(t, pod.Containers, 1, file)
			c := pod.Containers[0]
			require.Equal(t, file == "mount.yaml", c.Security.Privileged, file)
			require.True(t, c.Security.ReadOnly, file)
			if file != "mount.yaml" {
				require.True(t, pod.Security.NonRoot, file)
				require.NotNil(t, c.Security.Escalation, file)
				require.False(t, *c.Security.Escalation, file)
				require.Equal(t, []string{"ALL"}, c.Security.Capabilities.Drop, file)
			}
			if strings.HasPrefix(c.Image, "globalfs") {
				require.Contains(t, images, c.Image, file)
			}
			if c.Image == "globalfs-server" {
				require.Equal(t, 7420, pod.Security.User)
				require.Contains(t, string(image), "--uid 7420 ")
			}
			if m.Kind == "StatefulSet" {
				require.Equal(t, 3, m.Spec.Replicas)
				require.True(t, budgets[m.Metadata.Name], file)
				require.NotEmpty(t, services[m.Spec.ServiceName], file)
				for _, p := range services[m.Spec.ServiceName] {
					require.True(t, slices.ContainsFunc(c.Ports, func(own port) bool { return own.Name == p.Name && own.Container == p.Port }), "%s: %s", file, p.Name)
				}
			}
			var volumes []string
			for _, v := range pod.Volumes {
				volumes = append(volumes, v.Name)
				if v.Secret.Name != "" {
					require.Contains(t, string(page), "create secret generic "+v.Secret.Name+" ", file)
				}
				if v.Config.Name != "" {
					require.Contains(t, string(page), "create configmap "+v.Config.Name+" --from-file=cluster.yaml", file)
				}
			}
			for _, v := range c.Mounts {
				require.True(t, slices.Contains(volumes, v.Name) || m.Kind == "StatefulSet" && v.Name == "data", "%s: %s", file, v.Name)
			}
		}
	}
	require.Equal(t, 5, pods)
}

// TestKubernetesServers: the cluster file of the page names the pods of the StatefulSet as the servers that
// they run, at their port, and the members of etcd.
func TestKubernetesServers(t *testing.T) {
	page, err := os.ReadFile(kubernetesPage)
	require.NoError(t, err)
	server := readManifests(t)["servers.yaml"]
	i := slices.IndexFunc(server, func(m manifest) bool { return m.Kind == "StatefulSet" })
	require.GreaterOrEqual(t, i, 0)
	c := server[i].pod().Containers[0]
	script := c.Args[0]
	require.Contains(t, script, `server "us-west-2$(printf %s "${POD_NAME##*-}" | tr 0-8 a-i)"`)
	require.Contains(t, script, "--listen 0.0.0.0:7420 ")
	require.Contains(t, script, "--metrics 0.0.0.0:9464 ")
	mount := readManifests(t)["mount.yaml"][0].pod().Containers[0].Args[0]
	_, init, found := strings.Cut(strings.ReplaceAll(string(page), "\\\n", " "), "\nglobalfs init ")
	require.True(t, found)
	init, _, _ = strings.Cut(init, "\n")
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	var out bytes.Buffer
	require.Zero(t, cli.Main(append(append([]string{"init"}, strings.Fields(init)...), path), &out, &out), out.String())
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	for i, pod := range []string{"globalfs-0", "globalfs-1", "globalfs-2"} {
		address := pod + ".globalfs.globalfs.svc:7420"
		require.Contains(t, string(file), "us-west-2"+string(rune('a'+i))+": "+address)
		require.Contains(t, mount, address)
	}
	require.Contains(t, string(file), "https://etcd-2.etcd.globalfs.svc:2379")
	require.Contains(t, string(file), "data_dir: \"/var/lib/globalfs\"")
	paths := []string{}
	for _, v := range c.Mounts {
		paths = append(paths, v.Path)
	}
	require.ElementsMatch(t, []string{"/etc/globalfs/cluster.yaml", "/etc/globalfs/certs", "/var/lib/globalfs"}, paths)
}
