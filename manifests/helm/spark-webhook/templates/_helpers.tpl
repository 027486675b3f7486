{{- define "spark-webhook.labels" -}}
app.kubernetes.io/name: spark-webhook
app.kubernetes.io/part-of: spark-webhook
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* Namespaces whose pods never come to the webhook, also if somebody labels them. */}}
{{- define "spark-webhook.excluded" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: [kube-system, kube-public, kube-node-lease, {{ .Release.Namespace }}]
{{- end }}
