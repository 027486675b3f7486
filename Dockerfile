# docker build -t spark-webhook .
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/spark-webhook
COPY pyproject.toml README.md LICENSE ./
COPY webhook ./webhook
COPY certs ./certs
# Compiled beforehand: the image's file system is read-only where it runs.
RUN /opt/spark-webhook/bin/pip install --no-cache-dir --compile .

FROM python:3.13-slim
COPY --from=build /opt/spark-webhook /opt/spark-webhook
ENV PATH=/opt/spark-webhook/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# By number, so that Kubernetes can tell that it is not root.
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["spark-webhook"]
