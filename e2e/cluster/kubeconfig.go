package main

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// credential is what a kubeconfig proves its user with: a token, or a client certificate for nodes.
type credential struct{ token, certFile, keyFile string }

// writeKubeconfig writes a kubeconfig whose only context talks to server as the given user.
func writeKubeconfig(file, server, caFile, user string, cred credential) error {
	cfg := api.NewConfig()
	cfg.Clusters["csi-cluster"] = &api.Cluster{Server: server, CertificateAuthority: caFile}
	cfg.AuthInfos[user] = &api.AuthInfo{Token: cred.token, ClientCertificate: cred.certFile, ClientKey: cred.keyFile}
	cfg.Contexts["csi-cluster"] = &api.Context{Cluster: "csi-cluster", AuthInfo: user}
	cfg.CurrentContext = "csi-cluster"
	return clientcmd.WriteToFile(*cfg, file)
}

// clientConfig loads a kubeconfig without client-side rate limits: the limits under test are the sidecars'.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1
	cfg.UserAgent = "csi-cluster"
	return cfg, nil
}

func clientFor(kubeconfig string) (*kubernetes.Clientset, error) {
	cfg, err := clientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}
