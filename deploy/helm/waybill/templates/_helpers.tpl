{{- define "waybill.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "waybill.selector" -}}
app.kubernetes.io/name: waybill
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "waybill.labels" -}}
{{ include "waybill.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Keys of a Secret, each as a file of its name. */}}
{{- define "waybill.keys" -}}
{{- range . }}
- { key: {{ . }}, path: {{ . }} }
{{- end }}
{{- end }}

{{/* A Deployment of one program: root, component, program, arguments, port, resources, replicas (none: KEDA decides). */}}
{{- define "waybill.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "waybill.name" .root }}-{{ .component }}
  labels:
    {{- include "waybill.labels" . | nindent 4 }}
spec:
  {{- with .replicas }}
  replicas: {{ . }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "waybill.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "waybill.labels" . | nindent 8 }}
      annotations:
        # A change of the settings starts the pods anew.
        checksum/settings: {{ toJson .root.Values.settings | sha256sum }}
        {{- if .root.Values.scrapeAnnotations }}
        prometheus.io/scrape: "true"
        prometheus.io/port: {{ .port | quote }}
        {{- end }}
        {{- with .root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile:
          type: RuntimeDefault
      # On SIGTERM a process finishes what it has begun, within 10 seconds.
      terminationGracePeriodSeconds: 30
      containers:
        - name: {{ .program }}
          image: {{ printf "%s:%s" .root.Values.image.repository (.root.Values.image.tag | default .root.Chart.AppVersion) | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ .program }}]
          {{- with .arguments }}
          args: {{ toJson . }}
          {{- end }}
          envFrom:
            - configMapRef:
                name: {{ include "waybill.name" .root }}-settings
          ports:
            - name: http
              containerPort: {{ .port }}
          # It listens only after the database is migrated, which may take long.
          startupProbe:
            httpGet: { path: /livez, port: http }
            periodSeconds: 5
            failureThreshold: 720
          livenessProbe:
            httpGet: { path: /livez, port: http }
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet: { path: /readyz, port: http }
            periodSeconds: 5
            timeoutSeconds: 5
          {{- if eq .component "ingress" }}
          lifecycle:
            preStop:
              # Until the load balancer has heard that this pod goes.
              sleep: { seconds: 5 }
          {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          resources:
            {{- toYaml .resources | nindent 12 }}
          volumeMounts:
            - name: secrets
              mountPath: /run/secrets/waybill
              readOnly: true
      volumes:
        # Each process gets those keys of the Secret alone that it reads.
        - name: secrets
          projected:
            defaultMode: 0440
            sources:
              - secret:
                  name: {{ required "secret: name the Secret with DATABASE_URL, AMQP_URL, the signing secrets and PRIVACY_KEY" .root.Values.secret }}
                  items:
                    {{- include "waybill.keys" (concat (list "DATABASE_URL" "AMQP_URL" "PRIVACY_KEY") (ternary (list "STOREFRONT_WEBHOOK_SECRET" "PAYMENT_WEBHOOK_SECRET") list (eq .component "ingress"))) | trim | nindent 20 }}
              - secret:
                  name: {{ .root.Values.secret }}
                  optional: true
                  items:
                    {{- $optional := list "SMTP_URL" "PRIVACY_EXPORT_S3_ACCESS_KEY_ID" "PRIVACY_EXPORT_S3_SECRET_ACCESS_KEY" "OTEL_EXPORTER_OTLP_HEADERS" }}
                    {{- if has .component (list "ingress" "orders" "payments") }}
                    {{- $optional = concat $optional (list "STOREFRONT_API_TOKEN" "PAYMENT_API_KEY" "SECRETS_KEY") }}
                    {{- end }}
                    {{- if eq .component "ingress" }}
                    {{- $optional = append $optional "GITHUB_CLIENT_SECRET" }}
                    {{- end }}
                    {{- include "waybill.keys" $optional | trim | nindent 20 }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "waybill.selector" . | nindent 14 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "waybill.name" .root }}-{{ .component }}
  labels:
    {{- include "waybill.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "waybill.selector" . | nindent 6 }}
{{- end }}
